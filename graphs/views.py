"""Pages of task graphs: list, graph, profile, plans, items, timeline."""

from itertools import groupby
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may
from accounts.states import Right
from common.errors import SlipwayError, Unavailable
from common.pages.access import signed_in
from common.pages.answers import UNPROCESSABLE, done, page, refusals_at_the_form
from common.pages.forms import blame, reason_of
from common.pages.listing import list_page
from graphs import ray_runs, selectors, services
from graphs.differences import differences
from graphs.errors import NotOfWorker
from graphs.filters import GraphFilter
from graphs.forms import AdaptationForm, PlanWishForm, PushesForm, RayOrderForm
from graphs.items import (
    LAST_SECONDS,
    GraphItem,
    content_of,
    items_of,
    latest_spans,
    picture_type,
    spans_of,
)
from graphs.models import Graph, TaskGraphPlan
from graphs.panels import CHANGES, change_pictures, picture, plan_panel, profile_chart, worker_lines
from graphs.states import GraphItemState, GraphState
from graphs.timeline import of_item, of_processes
from serving.graphs.description import GraphDescription

PATH = "/graphs/"
LATEST = 10
PICTURES = ("png", "jpg", "webp")
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
    sent = request.POST if request.method == "POST" else None
    adapts = sent is not None and "adapt" in sent
    form = PlanWishForm(None if adapts else sent)
    adaptation = AdaptationForm(sent if adapts else None, instance=graph)
    if adaptation.is_bound and adaptation.is_valid():
        try:
            services.change_adaptation(graph, actor=actor, **adaptation.cleaned_data)
        except SlipwayError as error:
            adaptation.add_error(None, str(error))
        else:
            said = _("The adaptation of %(row)s was changed.") % {"row": graph}
            return done(request, said, to=f"{PATH}{pk}/")
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
        "pushes": graph.pushes.count(),
        "form": form,
        "adaptation": adaptation,
        "workers": worker_lines(graph),
        "may_write": may(actor, Right.GRAPHS_WRITE, graph.team),
        "replaced": graph.state == GraphState.RUNNING
        and graph.plans.filter(state="replaced", digest=graph.digest).exists(),
    }
    status = UNPROCESSABLE if form.is_bound or adaptation.is_bound else 200
    return page(request, "graphs/graph.html", context, parts=("graph",), status=status)


@require_safe
@signed_in
def changes_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Two pushes of a graph side by side: the last two where nothing else is asked for."""
    graph = selectors.graph_of(of_request(request), pk)
    latest = [one.pk for one in graph.pushes.all()[:2]]
    if len(latest) < 2:
        raise Http404
    form = PushesForm({"after": latest[0], "before": latest[1]} | request.GET.dict(), graph=graph)
    context: dict[str, Any] = {"graph": graph, "form": form}
    if form.is_valid():
        pushes = [form.cleaned_data[name] for name in ("before", "after")]
        before, after = (GraphDescription.parse(one.document) for one in pushes)
        context["differences"] = [(one, CHANGES[one.kind]) for one in differences(before, after)]
        context["pictures"] = zip(pushes, change_pictures(before, after), strict=True)
    return page(request, "graphs/changes.html", context, status=UNPROCESSABLE if form.errors else 200)


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
        and row.graph.state == GraphState.RUNNING
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
    if deed == "profile":
        services.order_profile(graph, actor=actor, reason=reason)
        return done(request, _("A profile of %(row)s was ordered.") % {"row": graph}, to=f"{PATH}{pk}/")
    if deed not in ("pause", "resume"):
        raise Http404
    row = (services.pause_graph if deed == "pause" else services.resume_graph)(
        graph, actor=actor, reason=reason
    )
    return done(request, f"{row}: {row.get_state_display()}", to=f"{PATH}{pk}/")


@require_safe
@signed_in
def items_page(request: HttpRequest, pk: int) -> HttpResponse:
    graph = selectors.graph_of(of_request(request), pk)
    state = request.GET.get("state", "")
    if state not in ("", *GraphItemState.values):
        raise Http404
    context = {
        "graph": graph,
        "found": items_of(graph, state),
        "chosen": state,
        "states": GraphItemState.values,
    }
    return page(request, "graphs/items.html", context, parts=("items",))


@require_safe
@signed_in
def item_page(request: HttpRequest, pk: int, item: str) -> HttpResponse:
    """Page of an item: its calls over time, and what is kept of its inputs and outputs."""
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    row = _item(graph, item)
    try:
        spans = spans_of(graph, item)
    except (Unavailable, NotOfWorker):
        spans = []
    may_write = may(actor, Right.GRAPHS_WRITE, graph.team)
    contents = [*(("input", name) for name in row.inputs), *(("output", name) for name in row.outputs)]
    drawn = {one["name"] for one in graph.document["inputs"] if one["type"] == "Image"}
    pictures = [
        (of, name)
        for of, name in contents
        if (name in drawn if of == "input" else row.outputs[name] in PICTURES)
    ]
    context = {
        "graph": graph,
        "item": row,
        "timeline": of_item(spans),
        "may_write": may_write,
        "pictures": pictures if may_write else [],
        "contents": contents if may_write else [],
    }
    return page(request, "graphs/item.html", context, parts=("item",))


@require_safe
@signed_in
def content(request: HttpRequest, pk: int, item: str, of: str) -> HttpResponse:
    """Bytes of an input or an output, for those who may operate the graph."""
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    if not may(actor, Right.GRAPHS_WRITE, graph.team):
        raise PermissionDenied
    try:
        media_type, data = content_of(graph, item, name=request.GET.get("name", ""), of=of)
    except (Unavailable, NotOfWorker) as error:
        raise Http404(str(error)) from None
    if of == "input" and (kind := picture_type(data)):
        media_type = kind
    answer = HttpResponse(data, content_type=media_type)
    # Of clients and of a team's code: no page of ours.
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Content-Security-Policy"] = "sandbox"
    if not media_type.startswith("image/"):
        answer["Content-Disposition"] = "attachment"
    return answer


@require_POST
@signed_in
@refusals_at_the_form
def retry(request: HttpRequest, pk: int, item: str) -> HttpResponse:
    graph = selectors.graph_of(of_request(request), pk)
    reason = reason_of(request, is_demanded=False)
    again = services.retry_item(graph, item, actor=of_request(request), reason=reason)
    return done(request, _("%(item)s runs again.") % {"item": item}, to=f"{PATH}{pk}/items/{again}/")


@require_safe
@signed_in
def timeline_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Calls of the last seconds at each worker, by process."""
    graph = selectors.graph_of(of_request(request), pk)
    drawn = [
        (worker, of_processes(spans, now=now, seconds=LAST_SECONDS))
        for worker, (now, spans) in latest_spans(graph).items()
    ]
    context = {"graph": graph, "workers": drawn, "seconds": LAST_SECONDS}
    return page(request, "graphs/timeline.html", context, parts=("timeline",))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def ray_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Runs of the graph on Ray in one cluster, as that shows them now, and the form for another one."""
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    clusters = ray_runs.clusters_of(graph)
    chosen = request.GET.get("cluster") or next(iter(clusters), "")
    if chosen and chosen not in clusters:
        raise Http404
    form = RayOrderForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            run = ray_runs.submit(graph, actor=actor, cluster=chosen, **form.order())
        except SlipwayError as error:
            blame(form, error)
        else:
            said = _("%(run)s was handed to %(cluster)s.") % {"run": run.name, "cluster": chosen}
            return done(request, said, to=f"{PATH}{pk}/ray/?cluster={chosen}")
    context = {"graph": graph, "clusters": clusters, "chosen": chosen, "form": form}
    context |= {"may_operate": may(actor, Right.FLEET_OPERATE, graph.team), "runs": (), "problem": ""}
    try:
        context["runs"] = ray_runs.runs(graph, cluster=chosen) if chosen else ()
    except SlipwayError as error:
        context["problem"] = str(error)
    return page(
        request, "graphs/ray.html", context, parts=("runs",), status=UNPROCESSABLE if form.is_bound else 200
    )


@require_POST
@signed_in
@refusals_at_the_form
def abort_ray(request: HttpRequest, pk: int, cluster: str, name: str) -> HttpResponse:
    actor = of_request(request)
    graph = selectors.graph_of(actor, pk)
    reason = reason_of(request, is_demanded=False)
    ray_runs.abort(graph, actor=actor, cluster=cluster, name=name, reason=reason)
    said = _("%(run)s was removed from %(cluster)s.") % {"run": name, "cluster": cluster}
    return done(request, said, to=f"{PATH}{pk}/ray/?cluster={cluster}")


def _item(graph: Graph, item: str) -> GraphItem:
    found = next((one for one in items_of(graph).items if one.id == item), None)
    if found is None:
        raise Http404
    return found


def _plan(request: HttpRequest, graph: int, pk: int) -> TaskGraphPlan:
    owner = selectors.graph_of(of_request(request), graph)
    row: TaskGraphPlan = get_object_or_404(owner.plans.select_related("graph__team"), pk=pk)
    return row
