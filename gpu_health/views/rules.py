"""Rules, presets, and where the sources of rules contradict each other."""

from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_everywhere
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.errors import Invalid, SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import row_page
from gpu_health import selectors
from gpu_health.errors import WaitsForSecondPerson
from gpu_health.forms import GpuRuleForm, NewRuleForm, PresetForm
from gpu_health.incident_facts import policy
from gpu_health.policy.disagreements import comparisons
from gpu_health.policy.presets import PRESETS, fault_title, faults, sources
from gpu_health.policy.rule import RemediationAction
from gpu_health.rulebook import presets_now
from gpu_health.services.presets import check_preset, choose_preset
from gpu_health.services.rules import add_rule, change_rule, proposed_rule, reset_rule
from gpu_health.services.rules import new_rule as thought_of
from gpu_health.states import FindingSeverity, FindingState


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
    used = selectors.preset_of()
    context = {
        "listing": listing,
        "severities": FindingSeverity.choices,
        "preset_title": next(one.title for one in PRESETS if one.name == used),
        "may_change": may_everywhere(of_request(request), Right.FLEET_OPERATE),
    }
    return page(request, "gpu_health/rules.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def rule_page(request: HttpRequest, name: str) -> HttpResponse:
    """POST with `preview` shows what the rule would have done; without, it is changed."""
    actor = of_request(request)
    found = or_404(selectors.rule_in_force, name)
    form = GpuRuleForm(
        request.POST if request.method == "POST" else None, initial=GpuRuleForm.initial_of(found.row)
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
                return done(request, _saved(actor, fault=found.rule.fault), to=f"/gpu-health/rules/{name}/")
        except WaitsForSecondPerson as noted:
            return done(request, str(noted), to=f"/gpu-health/rules/{name}/")
        except SlipwayError as error:
            blame(form, error)
    context = {
        "found": found,
        "asked": policy().asked_changes.get(f"rule:{name}"),
        "title": fault_title(found.rule.fault),
        "document": _document(found),
        "form": form,
        "trial": trial,
        "actions": ", ".join(RemediationAction),
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/rule.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def reset(request: HttpRequest, name: str) -> HttpResponse:
    found = or_404(selectors.rule_in_force, name)
    reset_rule(actor=of_request(request), name=name, reason=reason_of(request))
    if found.is_own:
        return done(request, _("The rule is deleted."), to="/gpu-health/rules/")
    return done(request, _("The rule is reset to its source."), to=f"/gpu-health/rules/{name}/")


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
        if (one.is_disputed and not one.is_unused) or request.GET.get("all")
    ]
    listing = row_page(request, rows, sorts=DISAGREEMENT_SORTS, default_sort="fault")
    context = {"listing": listing, "presets": PRESETS, "shows_all": bool(request.GET.get("all"))}
    return page(request, "gpu_health/disagreements.html", context, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def new_rule(request: HttpRequest) -> HttpResponse:
    """`?fault=` begins it. POST with `preview` shows what it would have done; without, it is added."""
    actor = of_request(request)
    posted = request.POST if request.method == "POST" else None
    form = NewRuleForm(posted, initial=NewRuleForm.initial_of_new(request.GET.get("fault", "")))
    trial = None
    if form.is_bound and form.is_valid():
        given = dict(form.cleaned_data)
        reason = given.pop("reason")
        try:
            if "preview" in request.POST:
                trial = selectors.try_rule(actor, thought_of(given).own_rule())
            elif not reason:
                raise Invalid(fields={"reason": [_("Say why; it is recorded in the audit log.")]})
            else:
                row = add_rule(actor=actor, given=given, reason=reason)
                return done(request, _("The rule is added."), to=f"/gpu-health/rules/{row.name}/")
        except WaitsForSecondPerson as noted:
            return done(request, str(noted), to="/gpu-health/rules/")
        except SlipwayError as error:
            blame(form, error)
    context = {
        "form": form,
        "trial": trial,
        "actions": ", ".join(RemediationAction),
        "faults": [(name, fault_title(name)) for name in faults()],
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/new_rule.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def preset_page(request: HttpRequest) -> HttpResponse:
    """Show the presets in use. POST with `preview` shows what another preset would have done."""
    actor = of_request(request)
    clusters = Cluster.objects.for_actor(actor).present().order_by("name")
    held = policy()
    posted = request.POST if request.method == "POST" else None
    form = PresetForm(posted, clusters=clusters, initial={"preset": held.preset})
    trial = None
    if form.is_bound and form.is_valid():
        chosen, cluster, reason = (form.cleaned_data[name] for name in ("preset", "cluster", "reason"))
        try:
            check_preset(chosen, cluster)
            if "preview" in request.POST:
                trial = selectors.try_preset(actor, chosen or held.preset, cluster)
            elif not reason:
                raise Invalid(fields={"reason": [_("Say why; it is recorded in the audit log.")]})
            else:
                choose_preset(actor=actor, preset=chosen, cluster=cluster, reason=reason)
                narrowed = {"node__cluster": cluster} if cluster else {}
                return done(request, _saved(actor, **narrowed), to="/gpu-health/presets/")
        except SlipwayError as error:
            blame(form, error)
    context = {
        "rows": presets_now(),
        "form": form,
        "trial": trial,
        "may_change": may_everywhere(actor, Right.FLEET_OPERATE),
    }
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    return page(request, "gpu_health/presets.html", context, status=status)


def _document(found: selectors.RuleInForce) -> object:
    return sources().get(found.rule.citation.source)


def _saved(actor: Actor, **narrowed: Any) -> str:
    """Return the message after a save, with the number of findings that are judged anew."""
    rows = selectors.findings(actor).filter(state=FindingState.OPEN, drill=None, **narrowed)
    if not (count := rows.count()):
        return _("Saved.")
    words = ngettext(
        "Saved. %(count)d open finding is judged by it now.",
        "Saved. %(count)d open findings are judged by it now.",
        count,
    )
    return words % {"count": count}
