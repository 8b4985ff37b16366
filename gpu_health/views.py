"""Findings, rules, and where the sources of rules contradict each other."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_everywhere, may_for_owner
from accounts.states import Right
from common.actor import Actor
from common.errors import Invalid, SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page, row_page
from gpu_health import selectors
from gpu_health.filters import FindingFilter
from gpu_health.forms import RuleForm
from gpu_health.healing_panel import healing_panel
from gpu_health.models import Finding
from gpu_health.policy.disagreements import comparisons
from gpu_health.policy.presets import PRESETS, fault_title, sources
from gpu_health.policy.rule import Action
from gpu_health.services.findings import close_finding
from gpu_health.services.rules import change_rule, proposed_rule, reset_rule
from gpu_health.states import FindingSeverity

SORTS = {"last": "last_at", "machine": "node__name", "fault": "fault", "seen": "count", "opened": "opened_at"}


def _natural(fault: str) -> tuple[bool, str, int]:
    """Xids first, by their numbers."""
    family, _dot, rest = fault.partition(".")
    return family != "xid", fault if family != "xid" else "", int(rest) if rest.isdecimal() else 0


RULE_SORTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "fault": lambda row: _natural(row["rule"].fault),
    "severity": lambda row: row["rule"].severity.rank,
}
DISAGREEMENT_SORTS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "fault": lambda row: _natural(row["fault"])
}


@require_safe
@signed_in
def finding_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, selectors.findings(actor), sorts=SORTS, default_sort="-last", filters=FindingFilter
    )
    context = {"listing": listing, "healing": healing_panel(actor)}
    return page(request, "gpu_health/findings.html", context, parts=("listing",))


@require_safe
@signed_in
def finding_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    finding = or_404(_finding, actor, pk)
    context = {
        "finding": finding,
        "may_close": finding.state == "open"
        and may_for_owner(actor, Right.FLEET_OPERATE, finding.node.cluster.team_id),
    }
    return page(request, "gpu_health/finding.html", context)


@require_POST
@signed_in
@refusals_at_the_form
def close(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    finding = or_404(_finding, actor, pk)
    close_finding(actor=actor, finding=finding, reason=reason_of(request))
    return done(request, _("The finding is closed."), to=f"/gpu-health/findings/{pk}/")


@require_safe
@signed_in
def rule_list(request: HttpRequest) -> HttpResponse:
    """`?q=` (words) and `?severity=` narrow it."""
    wanted, severity = request.GET.get("q", "").strip().lower(), request.GET.get("severity", "")
    faults = []
    if severity and severity not in FindingSeverity.values:
        faults.append((_("Severity"), _("There is no such severity.")))
        severity = ""
    rows = [
        {
            "rule": one.rule,
            "title": title,
            "is_changed": one.is_changed,
            "conditions": one.row.conditions,
            "mode": one.row.get_mode_display(),
            "document": _document(one),
        }
        for one in selectors.rules_in_force()
        if (wanted in (title := fault_title(one.rule.fault)).lower() or wanted in one.rule.name)
        and severity in ("", one.rule.severity)
    ]
    listing = row_page(request, rows, sorts=RULE_SORTS, default_sort="fault", faults=faults)
    context = {"listing": listing, "severities": FindingSeverity.choices}
    return page(request, "gpu_health/rules.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rule_page(request: HttpRequest, name: str) -> HttpResponse:
    """POST with `preview` shows what the rule would have done; without, it is changed."""
    actor = of_request(request)
    found = or_404(selectors.rule_in_force, name)
    form = RuleForm(
        request.POST if request.method == "POST" else None, initial=RuleForm.initial_of(found.row)
    )
    trial = None
    if form.is_bound and form.is_valid():
        given = dict(form.cleaned_data)
        reason = given.pop("reason")
        try:
            if "preview" in request.POST:
                rule, _values = proposed_rule(name, given)
                trial = selectors.try_rule(actor, rule)
            elif not reason:
                raise Invalid(fields={"reason": [_("Say why; it is recorded in the audit log.")]})
            else:
                change_rule(actor=actor, name=name, given=given, reason=reason)
                return done(request, _("Saved."), to=f"/gpu-health/rules/{name}/")
        except SlipwayError as error:
            blame(form, error)
    context = {
        "found": found,
        "title": fault_title(found.rule.fault),
        "document": _document(found),
        "form": form,
        "trial": trial,
        "actions": ", ".join(Action),
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/rule.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def reset(request: HttpRequest, name: str) -> HttpResponse:
    reset_rule(actor=of_request(request), name=name, reason=reason_of(request))
    return done(request, _("The rule is as its source says."), to=f"/gpu-health/rules/{name}/")


@require_safe
@signed_in
def disagreement_list(request: HttpRequest) -> HttpResponse:
    """`?all=1`: where they agree, too."""
    rows = [
        {
            "fault": one.fault,
            "title": fault_title(one.fault),
            "is_disputed": one.is_disputed,
            "cells": [one.statements.get(preset.name) for preset in PRESETS],
        }
        for one in comparisons()
        if one.is_disputed or request.GET.get("all")
    ]
    listing = row_page(request, rows, sorts=DISAGREEMENT_SORTS, default_sort="fault")
    context = {"listing": listing, "presets": PRESETS, "shows_all": bool(request.GET.get("all"))}
    return page(request, "gpu_health/disagreements.html", context, parts=("listing",))


def _finding(actor: Actor, pk: int) -> Finding:
    return selectors.finding(actor, pk)


def _document(found: selectors.RuleInForce) -> object:
    return sources().get(found.rule.citation.source)
