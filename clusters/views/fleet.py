"""The fleet: machines, workers and deployments, live."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from accounts.actors import of_request
from accounts.selectors import may, may_for_owner
from accounts.states import Right
from clusters import agent_contacts, heartbeat_records, overview, selectors
from clusters.errors import WorkerMissing
from clusters.filters import DeploymentFilter, MachineFilter
from clusters.fleet import DeploymentSnapshot, FleetSnapshot, WorkerSnapshot
from clusters.gpu_meters import gpu_meters, memory_share
from clusters.image_pulls import pulls_on
from clusters.kept_history import nodes_at
from clusters.machine_facts import machine_facts, places_by, standing_on
from clusters.models import Deployment, Gpu, Node
from clusters.node_events import events_of
from clusters.notes import DeploymentNote, deployment_notes
from clusters.overview import MACHINES_ON_A_PAGE, MachineRow, MapGrouping
from clusters.panels import node_panels
from clusters.pod_facts import pod_facts
from clusters.services.deployments import take_back_scale
from clusters.services.logs import LOG_LINES, MAX_LINES, matching_log, worker_log
from clusters.services.nodes import cordon_node, uncordon_node
from clusters.services.profiles import SECONDS, profile_worker
from clusters.states import GpuState, WorkerState
from clusters.topology import LEVELS, place_of
from common import clock
from common.actor import Actor
from common.pages.access import signed_in
from common.pages.answers import done, page, refusals_at_the_form
from common.pages.forms import reason_of
from common.pages.listing import row_page
from common.pages.logs import LogReader, log_context, log_file

MOST_MINUTES_AGO = 24 * 60
READINGS_SHOWN = ("utilization_ratio", "memory_used_bytes", "temperature_celsius")
TROUBLES_SHOWN = 8

MACHINE_SORTS: dict[str, Callable[[MachineRow], Any]] = {
    "name": lambda machine: machine.node.row.name,
    "state": lambda machine: machine.node.row.state,
    "gpu": lambda machine: (machine.facts.gpu_type, machine.facts.driver) if machine.facts.gpus else None,
    "free": lambda machine: machine.facts.free,
    "cluster": lambda machine: (machine.cluster, machine.facts.zone),
    "group": lambda machine: machine.node.row.group,
    "busy": lambda machine: machine.node.load.busy,
    "workers": lambda machine: machine.node.load.workers,
    "trouble": lambda machine: 0 if overview.cell_of(machine.node).tone else 1,
}
WORKER_SORTS: dict[str, Callable[[WorkerSnapshot], Any]] = {
    "name": lambda worker: worker.row.name,
    "service": lambda worker: worker.deployment.service,
    "version": lambda worker: worker.deployment.version_label,
    "state": lambda worker: (worker.alert, worker.state),
    "busy": lambda worker: worker.busy,
    "in_flight": lambda worker: worker.in_flight,
    "ttft": lambda worker: worker.ttft_seconds,
    "restarts": lambda worker: worker.row.restarts,
    "since": lambda worker: worker.row.state_since,
    "trouble": lambda worker: 0 if overview.in_trouble(worker) else 1,
}
DEPLOYMENT_SORTS: dict[str, Callable[[DeploymentSnapshot], Any]] = {
    "name": lambda one: one.row.name,
    "service": lambda one: one.row.service,
    "version": lambda one: one.row.version_label,
    "state": lambda one: one.row.state,
    "busy": lambda one: one.load.busy,
    "workers": lambda one: one.load.ready,
    "trouble": lambda one: 0 if one.row.state in ("failing", "degraded") else 1,
}


def frame(request: HttpRequest, fleet: FleetSnapshot) -> dict[str, Any]:
    """Return the context that every tab of the fleet shows above its table; `?by=` groups the heat map."""
    given = request.GET.get("by", "")
    by = MapGrouping(given) if given in MapGrouping.values else MapGrouping.GROUP
    places = places_by(by) if by in (MapGrouping.RACK, MapGrouping.POOL) else None
    # A failing deployment speaks for its failed workers.
    troubled = [
        worker
        for worker in overview.workers_of(fleet)
        if overview.in_trouble(worker) and (worker.alert or worker.deployment.state != "failing")
    ]
    return {
        "fleet": fleet,
        "totals": overview.totals_of(fleet),
        "maps": overview.maps_of(fleet, by, places),
        "by": by,
        "groupings": MapGrouping.choices,
        "troubled": troubled[:TROUBLES_SHOWN],
        "more_troubled": max(0, len(troubled) - TROUBLES_SHOWN),
        "warm": _noted(fleet),
        "failing": [one for one in overview.deployments_of(fleet) if one.row.state == "failing"],
        "levels": range(11),
    }


def _noted(fleet: FleetSnapshot) -> list[tuple[DeploymentSnapshot, DeploymentNote]]:
    """The visible deployments of which somebody above has something to say."""
    notes = deployment_notes()
    return [(one, notes[one.row.name]) for one in overview.deployments_of(fleet) if one.row.name in notes]


@require_safe
@signed_in
def machines(request: HttpRequest) -> HttpResponse:
    actor = of_request(request)
    fleet = selectors.fleet(actor)
    rows = overview.machines_of(fleet, machine_facts(actor))
    listing = row_page(
        request,
        rows,
        sorts=MACHINE_SORTS,
        default_sort="trouble",
        size=MACHINES_ON_A_PAGE,
        filters=MachineFilter(request.GET, queryset=Node.objects.all(), request=request),
        id_of=lambda machine: machine.node.row.pk,
    )
    meters = gpu_meters(machine.node.row for machine in listing.rows)
    shown = [replace(machine, gpus=meters.get(machine.node.row.pk, ())) for machine in listing.rows]
    context = frame(request, fleet) | {"listing": replace(listing, rows=shown), "has_gpus": bool(meters)}
    return page(request, "clusters/machines.html", context, parts=("now", "listing"))


@require_safe
@signed_in
def past(request: HttpRequest) -> JsonResponse:
    """Tell how busy machines were `?minutes=` ago, for the heat map: `{at, machines: {id: [busy, mark]}}`."""
    given = request.GET.get("minutes", "")
    ago = int(given) if given.isascii() and given.isdigit() and len(given) < 6 else 0
    at = clock.now() - timedelta(minutes=min(ago, MOST_MINUTES_AGO))
    nodes = [one.row.pk for each in selectors.fleet(of_request(request)).clusters for one in each.nodes]
    return JsonResponse({"at": at.isoformat(), "machines": nodes_at(nodes, at)})


@require_safe
@signed_in
def workers(request: HttpRequest) -> HttpResponse:
    """`?node=` (an id), `?q=` (words) and `?state=` (`trouble`, or a state) narrow it."""
    fleet = selectors.fleet(of_request(request))
    rows = overview.mentioning(overview.workers_of(fleet), request.GET.get("q", ""))
    node, state = request.GET.get("node", ""), request.GET.get("state", "")
    nodes = {one.row.pk: one.row.name for cluster in fleet.clusters for one in cluster.nodes}
    states = [("trouble", _("Unhealthy")), *WorkerState.choices]
    faults = []
    if node in map(str, nodes):
        rows = [worker for worker in rows if str(worker.row.node_id) == node]
    elif node:
        faults.append((_("Machine"), _("There is no such machine, or you may not see it.")))
    if state in dict(states):
        rows = [worker for worker in rows if _is_in(worker, state)]
    elif state:
        faults.append((_("State"), _("There is no such state.")))
    listing = row_page(request, rows, sorts=WORKER_SORTS, default_sort="trouble", size=50, faults=faults)
    context = frame(request, fleet) | {
        "listing": listing,
        "nodes": nodes,
        "node_name": next((name for pk, name in nodes.items() if str(pk) == node), ""),
        "states": states,
    }
    return page(request, "clusters/workers.html", context, parts=("now", "listing"))


def _is_in(worker: WorkerSnapshot, state: str) -> bool:
    return overview.in_trouble(worker) if state == "trouble" else worker.state == state


@require_safe
@signed_in
def node(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a machine: its GPUs with their last readings, its workers, and its cordon."""
    actor = of_request(request)
    row = visible_node(actor, pk)
    fleet = selectors.fleet(actor)
    now = next((one for cluster in fleet.clusters for one in cluster.nodes if one.row.pk == pk), None)
    readings = heartbeat_records.latest_readings(row.cluster_id, row.uid)
    found = place_of(row.labels)
    workers = now.workers if now else ()
    context = {
        "told": events_of(row, (one.row.name for one in workers)),
        "pulls": pulls_on(row),
        "standing": standing_on(row),
        "deployments": sorted({one.deployment.name for one in workers}),
        "fleet": fleet,
        "row": row,
        "now": now,
        "gpus": [
            (gpu, _shown_readings(gpu, readings.get(gpu.uuid, {})))
            for gpu in row.gpus.exclude(state=GpuState.GONE)
        ],
        "agent_token": agent_contacts.agent_token(row),
        "panels": node_panels(row),
        "drain": row.drains.order_by("-pk").first(),
        "place": [(level.title, found[level.name]) for level in LEVELS if level.name in found],
        "may_operate": may_for_owner(actor, Right.FLEET_OPERATE, row.cluster.team),
    }
    return page(request, "clusters/node.html", context, parts=("now",))


def _shown_readings(gpu: Gpu, readings: Mapping[str, float]) -> dict[str, float | None]:
    shown = {name: readings.get(name) for name in READINGS_SHOWN}
    return shown | {"memory_share": memory_share(shown, gpu.memory_bytes)}


@require_safe
@signed_in
def worker_log_file(request: HttpRequest, name: str) -> HttpResponse:
    """Download the end of a worker's log, or the lines of it that hold a text."""
    try:
        return log_file(request, name, _log_reader(of_request(request), name, MAX_LINES))
    except WorkerMissing as error:
        raise Http404(str(error)) from None


def _log_reader(actor: Actor, worker: str, lines: int) -> LogReader:
    read = partial(worker_log, actor=actor, worker=worker)
    return lambda text: matching_log(lambda most: read(lines=most), lines=lines, text=text)


@require_POST
@signed_in
@refusals_at_the_form
def cordon(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = visible_node(actor, pk)
    cordon_node(actor=actor, node=row, reason=reason_of(request))
    return done(request, _("%(node)s gets no new workers.") % {"node": row.name}, to=_url_of(row))


@require_POST
@signed_in
@refusals_at_the_form
def uncordon(request: HttpRequest, pk: int) -> HttpResponse:
    actor = of_request(request)
    row = visible_node(actor, pk)
    uncordon_node(actor=actor, node=row, reason=reason_of(request))
    return done(request, _("%(node)s may get new workers again.") % {"node": row.name}, to=_url_of(row))


def visible_node(actor: Actor, pk: int) -> Node:
    """Raises Http404."""
    rows = Node.objects.for_actor(actor).select_related("cluster__team")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise Http404(_("There is no such machine, or you may not see it."))
    return row


def _url_of(node: Node) -> str:
    return f"/fleet/nodes/{node.pk}/"


@require_POST
@signed_in
@refusals_at_the_form
def take_back(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    row = selectors.visible_deployment(actor, name)
    if row is None:
        raise Http404(_("There is no deployment %(name)s, or you may not see it.") % {"name": name})
    take_back_scale(row, actor=actor, reason=reason_of(request))
    told = _("%(name)s will have %(count)s workers again.") % {"name": name, "count": row.replicas}
    return done(request, told, to=f"/fleet/deployments/{name}/")


@require_safe
@signed_in
def deployments(request: HttpRequest) -> HttpResponse:
    fleet = selectors.fleet(of_request(request))
    rows = overview.deployments_of(fleet)
    listing = row_page(
        request,
        rows,
        sorts=DEPLOYMENT_SORTS,
        default_sort="trouble",
        filters=DeploymentFilter(request.GET, queryset=Deployment.objects.all(), request=request),
        id_of=lambda one: one.row.pk,
    )
    context = frame(request, fleet) | {"listing": listing}
    return page(request, "clusters/deployments.html", context, parts=("now", "listing"))


@require_safe
@signed_in
def worker(request: HttpRequest, name: str) -> HttpResponse:
    """Show a worker and the end of its log, read from its cluster."""
    actor = of_request(request)
    fleet = selectors.fleet(actor)
    found = next((one for one in fleet.workers if one.row.name == name), None)
    if found is None:
        raise Http404(_("There is no worker %(name)s, or you may not see it.") % {"name": name})
    nodes = {one.row.pk: one.row.name for cluster in fleet.clusters for one in cluster.nodes}
    context = {
        "fleet": fleet,
        "worker": found,
        "node_name": nodes.get(found.row.node_id or 0, ""),
        **log_context(request, _log_reader(actor, name, LOG_LINES)),
        "log_lines": LOG_LINES,
        "profile_seconds": SECONDS,
        "has_models": found.deployment.service in selectors.services_with_routes(),
        "may_profile": may(actor, Right.FLEET_OPERATE, found.deployment.team_id),
    }
    return page(request, "clusters/worker.html", context, parts=("now", "log"))


@require_POST
@signed_in
@refusals_at_the_form
def profile(request: HttpRequest, name: str) -> HttpResponse:
    """Take a profile and send it as a file."""
    given = request.POST.get("seconds", "")
    seconds = int(given) if given.isascii() and given.isdigit() else 0
    by = request.POST.get("by", "py-spy")
    taken = profile_worker(actor=of_request(request), worker=name, seconds=seconds, by=by)
    kind, ending = (
        ("application/zip", "torch.zip") if by == "torch" else ("application/json", "speedscope.json")
    )
    response = HttpResponse(taken, content_type=kind)
    response["Content-Disposition"] = f'attachment; filename="{name}.{ending}"'
    return response


@require_safe
@signed_in
def deployment(request: HttpRequest, name: str) -> HttpResponse:
    actor = of_request(request)
    row = selectors.visible_deployment(actor, name)
    if row is None:
        raise Http404(_("There is no deployment %(name)s, or you may not see it.") % {"name": name})
    fleet = selectors.fleet(actor)
    now = next((one for one in overview.deployments_of(fleet) if one.row.pk == row.pk), None)
    context = {"fleet": fleet, "row": row, "now": now, "note": deployment_notes().get(row.name)}
    context["may_operate"] = may(actor, Right.FLEET_OPERATE, row.team_id)
    context["pod_facts"] = pod_facts(row.engine, row.resources, row.pod)
    context["pod_patch"] = json.dumps(row.pod_patch, indent=2)
    return page(request, "clusters/deployment.html", context, parts=("now",))
