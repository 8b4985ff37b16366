"""Check Jobs of machines: what was found, and the form that orders one."""

from collections import Counter
from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_everywhere, may_for_owner, teams_where
from accounts.states import Right
from clusters.models import Node
from clusters.states import NodeState
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from gpu_health import selectors
from gpu_health.filters import CheckFilter
from gpu_health.models import GpuCheck
from gpu_health.services.checks import cancel_check, order_check
from gpu_health.states import CheckLevel

SORTS = {"ordered": "ordered_at", "machine": "node__name", "level": "level"}


class CheckForm(forms.Form):
    node = forms.ModelChoiceField(queryset=Node.objects.none(), label=gettext_lazy("Machine"))
    level = forms.TypedChoiceField(
        label=gettext_lazy("Level"), choices=CheckLevel.choices, coerce=int, initial=CheckLevel.SHORT
    )
    wait_minutes = forms.IntegerField(
        label=gettext_lazy("Wait for an idle machine"),
        min_value=0,
        max_value=10_080,
        initial=60,
        help_text=gettext_lazy("Minutes. A check never runs beside somebody's work."),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=MAX_REASON,
        help_text=gettext_lazy("Recorded in the audit log."),
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["node"].error_messages["invalid_choice"] = _("Choose a machine with GPUs.")
        self.fields["node"].queryset = _machines(actor)  # type: ignore[attr-defined]


@require_safe
@signed_in
def check_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, selectors.checks(actor), sorts=SORTS, default_sort="-ordered", filters=CheckFilter
    )
    may_order = may(actor, Right.FLEET_OPERATE) and _machines(actor).exists()
    context = {"listing": listing, "may_order": may_order}
    return page(request, "gpu_health/checks.html", context, parts=("listing",))


@require_safe
@signed_in
def check_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    check = or_404(_check, actor, pk)
    found = (check.report or {}).get("checks", [])
    models = Counter((check.report or {}).get("devices", []))
    context = {
        "check": check,
        "devices": [f"{count} × {model}" for model, count in models.items()],
        # What failed is what one has come for.
        "found": sorted(found, key=lambda one: one.get("outcome") != "failed"),
        "may_cancel": check.is_open and may_for_owner(actor, Right.FLEET_OPERATE, check.node.cluster.team_id),
    }
    return page(request, "gpu_health/check.html", context, parts=("now",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def order(request: HttpRequest) -> HttpResponse:
    """`?node=ID` chooses the machine."""
    actor = of_request(request)
    posted = request.POST if request.method == "POST" else None
    form = CheckForm(posted, actor=actor, initial={"node": request.GET.get("node")})
    if form.is_bound and form.is_valid():
        given = form.cleaned_data
        try:
            check = order_check(
                actor=actor,
                node=given["node"],
                level=given["level"],
                reason=given["reason"],
                waits=timedelta(minutes=given["wait_minutes"]),
            )
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The check is ordered."), to=f"/gpu-health/checks/{check.pk}/")
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    context = {"form": form, "has_machines": form.fields["node"].queryset.exists()}  # type: ignore[attr-defined]
    return page(request, "gpu_health/order_check.html", context, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    check = or_404(_check, actor, pk)
    cancel_check(actor=actor, check=check, reason=reason_of(request))
    return done(request, _("The check is being cancelled."), to=f"/gpu-health/checks/{pk}/")


def _check(actor: Actor, pk: int) -> GpuCheck:
    return selectors.check(actor, pk)


def _machines(actor: Actor) -> Any:
    rows = Node.objects.for_actor(actor).exclude(state=NodeState.GONE).select_related("cluster")
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        rows = rows.filter(cluster__team__in=teams_where(actor, Right.FLEET_OPERATE))
    return selectors.gpu_machines(rows).order_by("cluster__name", "name")
