"""Incidents, and what lets healing act: its mode, the kill switch, the breakers of pools."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may_for_owner
from accounts.states import Right
from common.actor import Actor
from common.pages.access import or_404, signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import reason_of
from common.pages.listing import list_page
from gpu_health import selectors
from gpu_health.filters import IncidentFilter
from gpu_health.forms import StopHealingForm
from gpu_health.healing_panel import healing_panel
from gpu_health.incident_facts import domain_machines, policy
from gpu_health.models import Incident
from gpu_health.pools import domain_of
from gpu_health.rma_answer import zip_of
from gpu_health.services import healing, incidents

SORTS = {"opened": "opened_at", "machine": "node__name", "fault": "fault"}


@require_safe
@signed_in
def incident_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, selectors.incidents(actor), sorts=SORTS, default_sort="-opened", filters=IncidentFilter
    )
    context = {"listing": listing, "healing": healing_panel(actor)}
    return page(request, "gpu_health/incidents.html", context, parts=("listing", "healing"))


@require_safe
@signed_in
def incident_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    incident = or_404(_incident, actor, pk)
    may_act = incident.is_open and may_for_owner(actor, Right.FLEET_OPERATE, incident.node.cluster.team_id)
    is_domain = incident.is_open and incident.hold == "domain"
    context = {
        "incident": incident,
        "domain": domain_of(incident.node.labels) if is_domain else "",
        "domain_machines": domain_machines(incident.node) if is_domain else [],
        "finding": incident.finding,
        "rungs": [
            {"action": action, "is_current": index == incident.rung, "is_past": index < incident.rung}
            for index, action in enumerate(incident.ladder)
        ],
        "timeline": incident.timeline.all(),
        "checks": (incident.check_result or {}).get("checks", []),
        "may_act": may_act,
        "may_approve": may_act and incident.waits_for_approval,
    }
    return page(request, "gpu_health/incident.html", context, parts=("now",))


@require_safe
@signed_in
def rma(request: HttpRequest, pk: int) -> HttpResponse:
    """Download the RMA bundle for the vendor of the machine."""
    return zip_of(or_404(_incident, of_request(request), pk))


@require_safe
@signed_in
def notice(request: HttpRequest) -> HttpResponse:
    """Above every page while the kill switch is on."""
    held = policy()
    if not held.is_stopped:
        return HttpResponse()
    return render(request, "gpu_health/_notice.html", {"policy": held})


@require_POST
@signed_in
@refusals_at_the_form
def approve(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.approve, _("Approved."))


@require_POST
@signed_in
@refusals_at_the_form
def approve_domain(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.approve_domain, _("The machines of the domain are approved."))


@require_POST
@signed_in
@refusals_at_the_form
def cordon_domain(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.cordon_domain, _("The rest of the domain is being cordoned."))


@require_POST
@signed_in
@refusals_at_the_form
def hold(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.hold, _("The incident is held."))


@require_POST
@signed_in
@refusals_at_the_form
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.resume, _("The incident goes on."))


@require_POST
@signed_in
@refusals_at_the_form
def verify(request: HttpRequest, pk: int) -> HttpResponse:
    return _deed(request, pk, incidents.verify_again, _("The machine is being verified."))


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int, how: str) -> HttpResponse:
    """`return`: the machine goes back to service; else it stays as it is."""
    said = _("The incident is being cancelled.")
    return _deed(request, pk, incidents.cancel, said, returns=how == "return")


@require_POST
@signed_in
@refusals_at_the_form
def stop(request: HttpRequest) -> HttpResponse:
    form = StopHealingForm(request.POST)
    healing.stop_healing(
        actor=of_request(request),
        reason=reason_of(request),
        stops_drains=form.is_valid() and form.cleaned_data["stop_drains"],
    )
    return done(request, _("Healing is stopped."), to="/gpu-health/incidents/")


@require_POST
@signed_in
@refusals_at_the_form
def restart(request: HttpRequest) -> HttpResponse:
    healing.resume_healing(actor=of_request(request), reason=reason_of(request))
    return done(request, _("The kill switch is off."), to="/gpu-health/incidents/")


@require_POST
@signed_in
@refusals_at_the_form
def set_mode(request: HttpRequest, mode: str) -> HttpResponse:
    healing.change_policy(actor=of_request(request), given={"mode": mode}, reason=reason_of(request))
    said = _("Auto-remediation is enabled.") if mode == "act" else _("Healing is in dry run.")
    return done(request, said, to="/gpu-health/incidents/")


@require_POST
@signed_in
@refusals_at_the_form
def close_breaker(request: HttpRequest, pk: int, backlog: str) -> HttpResponse:
    pool = or_404(selectors.pool, pk)
    healing.close_breaker(
        actor=of_request(request), pool=pool, replays=backlog == "replay", reason=reason_of(request)
    )
    return done(request, _("The breaker is closed."), to="/gpu-health/incidents/")


def _deed(
    request: HttpRequest, pk: int, deed: Callable[..., object], said: str, **given: Any
) -> HttpResponse:
    actor = of_request(request)
    incident = or_404(_incident, actor, pk)
    deed(actor=actor, incident=incident, reason=reason_of(request), **given)
    return done(request, said, to=f"/gpu-health/incidents/{pk}/")


def _incident(actor: Actor, pk: int) -> Incident:
    return selectors.incident(actor, pk)
