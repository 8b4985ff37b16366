"""Findings, rules, and where the sources of rules contradict each other."""

from django.http import HttpRequest, HttpResponse
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
from gpu_health.filters import FindingFilter
from gpu_health.healing_panel import healing_panel
from gpu_health.models import Finding
from gpu_health.services.findings import close_finding

SORTS = {"last": "last_at", "machine": "node__name", "fault": "fault", "seen": "count", "opened": "opened_at"}


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


def _finding(actor: Actor, pk: int) -> Finding:
    return selectors.finding(actor, pk)
