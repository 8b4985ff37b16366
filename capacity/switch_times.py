"""Time that a worker of a model needs on a kind of machine: to drain, and from its order until it answers."""

from django.db import transaction

from capacity.models import PoolMember, SwitchTime
from capacity.planning.learning import learned
from clusters import selectors as fleet
from clusters.capacities import rooms_of
from clusters.models import Cluster, Deployment, Gpu, Occupancy, Worker
from clusters.states import WorkerState

UNMEASURED_SWITCH_SECONDS = 60.0
CPU = "CPU"
"""Kind of machines without GPUs."""


def switch_time(member: PoolMember, deployment: str = "") -> float:
    """Return the seconds from an order to the first answer, on the kind of machine that would be started.

    Where that was not measured, it is what the service's last plans took, whatever their machines.
    """
    rows = times_of(deployment)
    kind = next_kind(member.pool.cluster) if rows else ""
    found = next((row.start_seconds for row in rows if row.kind == kind), None)
    if found is not None:
        return found
    return UNMEASURED_SWITCH_SECONDS if member.switch_seconds is None else member.switch_seconds


def is_measured(member: PoolMember, deployment: str) -> bool:
    """Whether any plan has started a worker of it, here or on another kind of machine."""
    has_rows = any(row.start_seconds is not None for row in times_of(deployment))
    return has_rows or member.switch_seconds is not None


def times_of(deployment: str) -> list[SwitchTime]:
    """Return the measured times of the model that a deployment serves, by kind of machine."""
    model = Deployment.objects.filter(name=deployment).values("version__model")
    return list(SwitchTime.objects.filter(model__in=model).order_by("kind"))


def next_kind(cluster: Cluster) -> str:
    """Return the kind of machine that would take the next worker: the one with most free cards."""
    rooms = rooms_of(cluster, Occupancy.objects.filter(cluster=cluster).first())
    free: dict[str, int] = {}
    for room in rooms:
        if room.takes_pods:
            left = sum(room.free.values())
            free[room.gpu_type or CPU] = free.get(room.gpu_type or CPU, 0) + left
    return max(sorted(free), key=lambda kind: free[kind], default=CPU)


def kinds_of_newest(deployment: str, count: int) -> set[str]:
    """Return the kinds of machines on which its newest ready workers stand."""
    rows = Worker.objects.filter(deployment__name=deployment, state=WorkerState.READY)
    nodes = list(rows.order_by("-state_since").values_list("node", flat=True)[:count])
    gpus = dict(Gpu.objects.filter(node__in=nodes).order_by("-index").values_list("node", "name"))
    return {gpus.get(node, CPU) for node in nodes}


def load_seconds(deployment: str, count: int) -> float | None:
    """Return what the slowest of its newest ready workers took to load; None where none says it.

    One that has just become ready may not have said it yet: then older ones count.
    """
    rows = Worker.objects.filter(deployment__name=deployment, state=WorkerState.READY)
    newest = set(rows.order_by("-state_since").values_list("uid", flat=True)[:count])
    found = fleet.deployments_now([deployment]).get(deployment)
    told = {
        one.row.uid: one.load_seconds
        for one in (found.workers if found else ())
        if one.load_seconds is not None
    }
    return max((told[uid] for uid in newest & told.keys()), default=max(told.values(), default=None))


def record_switch(deployment: str, kinds: set[str], **measured: float | None) -> None:
    """Learn `drain_seconds`, `load_seconds` or `start_seconds` of the model of a deployment on these kinds of
    machines; None: not measured this time."""
    model = Deployment.objects.filter(name=deployment).values_list("version__model", flat=True).first()
    if model is None:
        return
    with transaction.atomic():
        for kind in kinds:
            row = SwitchTime.objects.get_or_create(model_id=model, kind=kind)[0]
            known = {name: seconds for name, seconds in measured.items() if seconds is not None}
            for name, seconds in known.items():
                setattr(row, name, learned(getattr(row, name), seconds))
            row.save(update_fields=list(known))
