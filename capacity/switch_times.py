"""Time that a worker of a model needs on a kind of machine: to drain, and from its order until it answers."""

from django.db import transaction

from capacity.models import PoolMember, SwitchTime
from capacity.planning.learning import learned
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
            held = sum(count for resource in room.used.values() for count in resource.values())
            left = sum(room.allocatable.values()) - held
            free[room.gpu_type or CPU] = free.get(room.gpu_type or CPU, 0) + left
    return max(sorted(free), key=lambda kind: free[kind], default=CPU)


def kinds_of_newest(deployment: str, count: int) -> set[str]:
    """Return the kinds of machines on which its newest ready workers stand."""
    rows = Worker.objects.filter(deployment__name=deployment, state=WorkerState.READY)
    nodes = list(rows.order_by("-state_since").values_list("node", flat=True)[:count])
    gpus = dict(Gpu.objects.filter(node__in=nodes).order_by("-index").values_list("node", "name"))
    return {gpus.get(node, CPU) for node in nodes}


def record_switch(deployment: str, kinds: set[str], **measured: float) -> None:
    """Learn `drain_seconds` or `start_seconds` of the model of a deployment on these kinds of machines."""
    model = Deployment.objects.filter(name=deployment).values_list("version__model", flat=True).first()
    if model is None:
        return
    with transaction.atomic():
        for kind in kinds:
            row = SwitchTime.objects.get_or_create(model_id=model, kind=kind)[0]
            for name, seconds in measured.items():
                setattr(row, name, learned(getattr(row, name), seconds))
            row.save(update_fields=list(measured))
