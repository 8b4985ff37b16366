"""Drills: the form that orders one, its ladder as it is climbed, and which clusters are test clusters."""

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_everywhere, may_for_owner, teams_where
from accounts.states import Right
from clusters.models import Cluster, Node
from clusters.states import NodeState
from common.actor import Actor
from common.audit import MAX_REASON
from common.errors import SlipwayError
from common.pages.access import or_404, signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from gpu_health import selectors
from gpu_health.drills.reports import followed, report
from gpu_health.drills.scenarios import scenarios
from gpu_health.filters import DrillFilter
from gpu_health.models import Drill, DrillCluster
from gpu_health.services.drills import MOST_GPUS, cancel_drill, mark_cluster, order_drill, verdict_of
from gpu_health.states import DrillWay

SORTS = {"ordered": "ordered_at", "machine": "node__name", "scenario": "scenario"}


class DrillForm(forms.Form):
    scenario = forms.ChoiceField(label=gettext_lazy("Scenario"))
    node = forms.ModelChoiceField(
        queryset=Node.objects.none(),
        label=gettext_lazy("Machine"),
        help_text=gettext_lazy("Of a test cluster."),
    )
    acts = forms.BooleanField(
        label=gettext_lazy("Act"),
        required=False,
        help_text=gettext_lazy(
            "Quarantine the machine, drain it and return it; repairs are simulated. If off, the "
            "drill is a dry run."
        ),
    )
    gpus = forms.IntegerField(
        label=gettext_lazy("Simulated GPUs"), min_value=1, max_value=MOST_GPUS, initial=8
    )
    gpu = forms.IntegerField(
        label=gettext_lazy("Faulty GPU index"),
        min_value=0,
        max_value=MOST_GPUS - 1,
        initial=0,
        help_text=gettext_lazy("Counted from 0."),
    )
    way = forms.ChoiceField(
        label=gettext_lazy("Reported by"),
        required=False,
        choices=(("", gettext_lazy("Best available")), *DrillWay.choices),
    )
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=MAX_REASON,
        help_text=gettext_lazy("Recorded in the audit log."),
    )

    def __init__(self, *args: Any, actor: Actor, **options: Any) -> None:
        super().__init__(*args, **options)
        machines = _machines(actor)
        self.fields["node"].queryset = machines  # type: ignore[attr-defined]
        if machines.count() == 1:
            self.initial.setdefault("node", machines.first())
        choices = [(one.name, one.title) for one in scenarios().values()]
        self.fields["scenario"].choices = choices  # type: ignore[attr-defined]


@require_safe
@signed_in
def drill_list(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    listing = list_page(
        request, selectors.drills(actor), sorts=SORTS, default_sort="-ordered", filters=DrillFilter
    )
    marks = {row.cluster_id: row for row in DrillCluster.objects.all()}
    context = {
        "listing": listing,
        "clusters": [
            {
                "cluster": cluster,
                "mark": marks.get(cluster.pk),
                "may_mark": may_for_owner(actor, Right.FLEET_OPERATE, cluster.team_id),
            }
            for cluster in Cluster.objects.for_actor(actor).order_by("name")
        ],
        "may_order": may(actor, Right.FLEET_OPERATE) and bool(marks),
    }
    return page(request, "gpu_health/drills.html", context, parts=("listing",))


@require_safe
@signed_in
def drill_page(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    drill = or_404(_drill, actor, pk)
    rows = followed(drill)
    told = drill.report or report(drill)
    context = {
        "drill": drill,
        "told": told,
        "steps": told["steps"],
        "compared": _compared(told["verdict"]),
        "finding": rows.finding,
        "incident": rows.incident,
        "may_cancel": drill.is_open
        and not drill.cancelled_by
        and may_for_owner(actor, Right.FLEET_OPERATE, drill.node.cluster.team_id),
    }
    return page(request, "gpu_health/drill.html", context, parts=("now",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def order(request: HttpRequest) -> HttpResponse:
    """`?scenario=NAME` and `?node=ID` choose them."""
    actor = of_request(request)
    posted = request.POST if request.method == "POST" else None
    initial = {name: request.GET[name] for name in ("scenario", "node") if name in request.GET}
    form = DrillForm(posted, actor=actor, initial=initial)
    if form.is_bound and form.is_valid():
        given = dict(form.cleaned_data)
        try:
            drill = order_drill(actor=actor, node=given.pop("node"), name=given.pop("scenario"), **given)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("The drill begins."), to=f"/gpu-health/drills/{drill.pk}/")
    status = UNPROCESSABLE if form.is_bound and form.errors else 200
    rules = selectors.rules()
    rows = [(one, verdict_of(one, one.ways[0], rules)) for one in scenarios().values()]
    return page(request, "gpu_health/order_drill.html", {"form": form, "scenarios": rows}, status=status)


@require_POST
@signed_in
@refusals_at_the_form
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    drill = or_404(_drill, actor, pk)
    cancel_drill(actor=actor, drill=drill, reason=reason_of(request))
    return done(request, _("The drill is being cancelled."), to=f"/gpu-health/drills/{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def mark(request: HttpRequest, name: str, how: str) -> HttpResponse:
    """`test`: faults may be played on the cluster's machines from now on; else no more."""
    actor = of_request(request)
    cluster = Cluster.objects.for_actor(actor).select_related("team").filter(name=name).first()
    if cluster is None:
        raise Http404(_("There is no cluster %(name)s, or you may not see it.") % {"name": name})
    mark_cluster(actor=actor, cluster=cluster, is_test=how == "test", reason=reason_of(request))
    said = _("%(name)s is a test cluster.") if how == "test" else _("%(name)s is no test cluster.")
    return done(request, said % {"name": name}, to="/gpu-health/drills/")


def _compared(verdict: Any) -> list[dict[str, Any]]:
    """A line per word of the verdict: as the rules said, as it was found."""
    expected, found = verdict["expected"], verdict["found"] or {}
    names = {
        "outcome": _("Verdict"),
        "severity": _("Severity"),
        "ladder": _("Remediation steps"),
        "drain": _("Drain"),
    }
    return [
        {
            "name": label,
            "expected": _text(expected.get(name)),
            "found": _text(found.get(name)),
            "is_other": bool(found) and expected.get(name) != found.get(name),
        }
        for name, label in names.items()
    ]


def _text(value: Any) -> str:
    return " > ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _drill(actor: Actor, pk: int) -> Drill:
    return selectors.drill(actor, pk)


def _machines(actor: Actor) -> Any:
    tests = DrillCluster.objects.values("cluster")
    rows = Node.objects.for_actor(actor).filter(cluster__in=tests).exclude(state=NodeState.GONE)
    if not may_everywhere(actor, Right.FLEET_OPERATE):
        rows = rows.filter(cluster__team__in=teams_where(actor, Right.FLEET_OPERATE))
    return rows.select_related("cluster").order_by("cluster__name", "name")
