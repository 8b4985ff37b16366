"""The check Job of a machine that was acted on, and whether its report verifies the machine."""

from collections.abc import Mapping

from clusters.models import Gpu, Node
from clusters.states import GpuSharing, GpuState
from common.jobs.spec import BY_CIRCUMSTANCE, JobContainer, JobLimits, JobObservation, JobSpec
from gpu_health.actions.base import ActionTarget, job_owner, python_on
from gpu_health.drills.orders import check_order
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.healing.verifying import VerificationDemand, verdict
from gpu_health.models import GpuCount, Incident, StoredReading
from gpu_health.policy.rule import Verification
from gpu_health.signals.check_reports import NotAReport, read_report
from gpu_health.signals.reading import bus_id

VERIFYING_LEVEL = 2
WALL_SECONDS: Mapping[int, float] = {1: 300.0, 2: 1_800.0, 3: 7_200.0}
"""By level, with what DCGM takes where it is installed."""


def check_job(node: Node, level: int, *, op_key: str, owner: str, network: bool = False) -> JobSpec:
    argv = (*python_on(node), "-m", "serving.checks", "gpu", "--level", str(level), "--json")
    argv += ("--network",) if network else ()
    limits = JobLimits(wall_seconds=WALL_SECONDS[level])
    return JobSpec(op_key, owner, argv, limits=limits, container=JobContainer(is_privileged=True))


def check_spec(target: ActionTarget, op_key: str) -> JobSpec:
    incident = target.incident
    demand = demand_of(incident)
    if incident.drill_id is not None:
        return check_order(target, op_key, demand.checks)
    return check_job(
        target.node,
        VERIFYING_LEVEL,
        op_key=op_key,
        owner=job_owner(incident),
        network=demand.needs_network,
    )


def demand_of(incident: Incident) -> VerificationDemand:
    """Return what must be checked before the machine of this incident returns."""
    device = bus_id(incident.device)
    gpus = Gpu.objects.filter(node_id=incident.node_id).exclude(state=GpuState.GONE)
    is_split = gpus.filter(sharing=GpuSharing.MIG).exists()
    whole = 0 if is_split else incident.gpu_count
    ports = frozenset[str]()
    if incident.fault.startswith("ib."):
        told = StoredReading.objects.filter(
            node_id=incident.node_id, fault=incident.fault, at__gte=incident.first_at
        ).values_list("details", flat=True)
        ports = frozenset(str(details["port"]) for details in told if details.get("port"))
    return VerificationDemand(
        verification=Verification(incident.verification),
        fault=incident.fault,
        gpu_uuid=incident.gpu_uuid or ("" if device else incident.device),
        gpu_bus_id=device,
        expected_gpus=incident.drill.gpus if incident.drill else expected_gpus(incident.node) or whole,
        is_split=is_split,
        ports=ports,
    )


def expected_gpus(node: Node) -> int:
    """Return how many GPUs the machine must have; 0: nobody knows."""
    row = GpuCount.objects.filter(node=node).select_related("node").first()
    return row.expected if row else 0


def judged(seen: JobObservation, demand: VerificationDemand) -> MachineWork:
    """A check that could not be tried says nothing of the machine: a person does."""
    if seen.is_live:
        return MachineWork(WorkProgress.RUNNING, "The check runs.")
    if seen.result is None or seen.ending in BY_CIRCUMSTANCE:
        why = seen.last_words or seen.why or "It left no result."
        return MachineWork(WorkProgress.IMPOSSIBLE, f"The machine could not be checked. {why}")
    try:
        return verdict(read_report(seen.result), demand)
    except NotAReport as error:
        return MachineWork(WorkProgress.IMPOSSIBLE, f"The check left no report that can be read: {error}.")
