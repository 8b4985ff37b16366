"""Pages of task graphs: list, graph, profile, plans."""

from itertools import groupby

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.errors import SlipwayError
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from graphs import selectors, services
from graphs.filters import GraphFilter
from graphs.forms import PlanWishForm
from graphs.models import TaskGraphPlan
from graphs.panels import picture, plan_panel, profile_chart

PATH = "/graphs/"
LATEST = 10
SORTS = {"name": "name", "team": "team__name", "state": "state", "created": "created_at"}


@require_safe
@signed_in
def graph_list(request: HttpRequest) -> HttpResponse:
    rows = selectors.graphs(of_request(request))
    listing = list_page(request, rows, sorts=SORTS, default_sort="name", filters=GraphFilter)
    return page(request, "graphs/list.html", {"listing": listing}, parts=("listing",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def graph_page(request: HttpRequest, pk: int) -> HttpResponse:
    """The graph with its active plan, and the form that orders another one."""
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    form = PlanWishForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            plan = services.order_plan(graph, actor=actor, **form.cleaned_data)
        except SlipwayError as error:
            blame(form, error)
        else:
            return done(request, _("%(row)s was ordered.") % {"row": plan}, to=f"{PATH}{pk}/plans/{plan.pk}/")
    active = selectors.active_plan(graph)
    context = {
        "graph": graph,
        "active": active,
        "picture": picture(graph, active),
        "plans": graph.plans.all()[:LATEST],
        "profiles": graph.profiles.count(),
        "form": form,
        "may_write": may(actor, Right.GRAPHS_WRITE, graph.team),
        "replaced": graph.plans.filter(state="replaced", digest=graph.digest).exists(),
    }
    status = UNPROCESSABLE if form.is_bound else 200
    return page(request, "graphs/graph.html", context, parts=("graph",), status=status)


@require_safe
@signed_in
def profile_page(request: HttpRequest, pk: int) -> HttpResponse:
    graph = selectors.graph_of(of_request(request), pk)
    rows = graph.profiles.select_related("graph")
    tasks = [list(found) for _task, found in groupby(rows, key=lambda one: one.task)]
    charts = [(found[0].task, profile_chart(found), found) for found in tasks]
    return page(request, "graphs/profile.html", {"graph": graph, "charts": charts}, parts=("profile",))


@require_safe
@signed_in
def plan_page(request: HttpRequest, pk: int, plan: int) -> HttpResponse:
    actor = of_request(request)
    row = _plan(request, pk, plan)
    active = selectors.active_plan(row.graph)
    context = {
        "plan": row,
        "graph": row.graph,
        "panel": plan_panel(row, active),
        "may_start": row.state in ("proposed", "replaced")
        and row.digest == row.graph.digest
        and may(actor, Right.GRAPHS_WRITE, row.graph.team),
    }
    return page(request, "graphs/plan.html", context, parts=("plan",))


@require_POST
@signed_in
@refusals_at_the_form
def start(request: HttpRequest, pk: int, plan: int) -> HttpResponse:
    row = services.start_plan(
        _plan(request, pk, plan), actor=of_request(request), reason=reason_of(request, is_demanded=False)
    )
    return done(request, _("%(row)s is active.") % {"row": row}, to=f"{PATH}{pk}/")


@require_POST
@signed_in
@refusals_at_the_form
def act(request: HttpRequest, pk: int, deed: str) -> HttpResponse:
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    reason = reason_of(request, is_demanded=False)
    if deed == "rollback":
        plan = services.roll_back_plan(graph, actor=actor, reason=reason)
        return done(request, _("%(row)s is active.") % {"row": plan}, to=f"{PATH}{pk}/")
    if deed not in ("pause", "resume"):
        raise Http404
    row = (services.pause_graph if deed == "pause" else services.resume_graph)(
        graph, actor=actor, reason=reason
    )
    return done(request, f"{row}: {row.get_state_display()}", to=f"{PATH}{pk}/")


def _plan(request: HttpRequest, graph: int, pk: int) -> TaskGraphPlan:
    owner = selectors.graph_of(of_request(request), graph)
    row: TaskGraphPlan = get_object_or_404(owner.plans.select_related("graph__team"), pk=pk)
    return row
