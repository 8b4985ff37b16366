"""Whether a check's report verifies the machine: the very check, on the very GPU, and all GPUs there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.policy.rule import Verification
from gpu_health.signals.check_reports import FAULTS, CheckedGpu, CheckFound, CheckReport

NETWORK = "infiniband"
OF_ALL_TOGETHER = frozenset({"all_reduce"})
"""Checks that name no GPU: each of the report takes part."""
FOUND_ONLY = frozenset({"same_as_others", "answers"})
"""Checks that a report names only when they fail."""
CHECKS: Mapping[Verification, frozenset[str]] = {
    Verification.CHECK_JOB: frozenset({"matrix_products", "memory_patterns"}),
    Verification.DCGM_DIAGNOSTIC: frozenset({"dcgm_diagnostic"}),
    Verification.NCCL_BANDWIDTH: OF_ALL_TOGETHER,
}
UNTRIED = ("skipped", "inconclusive")
SHORT_OF_A_PASS = {
    "inconclusive": "{name} is inconclusive on {where}: {words}",
    "skipped": "{name} was skipped on {where}: {words}",
    "warned": "{name} warned on {where}: {words}",
    "measured": "{name} on {where} was measured and cannot be judged: {words}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationDemand:
    """The checks that must pass before the machine returns, and on which GPU."""

    verification: Verification
    fault: str
    gpu_uuid: str = ""
    gpu_bus_id: str = ""
    """Both blank: every GPU of the machine."""
    expected_gpus: int = 0
    """0: nobody knows how many the machine has."""
    is_split: bool = False
    """MIG splits its GPUs: checks see slices."""
    ports: frozenset[str] = frozenset()
    """Of the network, that the fault is about; empty: any that carries data."""

    @property
    def needs_network(self) -> bool:
        return self.verification is Verification.NCCL_BANDWIDTH and self.fault.startswith("ib.")

    @property
    def checks(self) -> list[str]:
        """Names of the checks that must pass on the GPU: of the verification, and the one that found the
        fault."""
        found_by = {name for name, fault in FAULTS.items() if fault == self.fault} - FOUND_ONLY
        return sorted(CHECKS[self.verification] | found_by)


def verdict(report: CheckReport, demand: VerificationDemand) -> MachineWork:
    """SUCCEEDED only where every demanded check passed; what could not be told is a person's (IMPOSSIBLE)."""
    if report.failed:
        return MachineWork(
            WorkProgress.FAILED, f"The check failed: {report.failed[0].words or report.failed[0].name}"
        )
    if not report.gpus:
        words = next((f" {check.words}" for check in report.checks if check.outcome in UNTRIED), "")
        return MachineWork(WorkProgress.IMPOSSIBLE, f"No GPU of the machine was checked.{words}")
    if len(report.gpus) < demand.expected_gpus:
        lacks = f"Only {len(report.gpus)} of {demand.expected_gpus} GPUs were there to be checked."
        if demand.is_split:
            return MachineWork(WorkProgress.IMPOSSIBLE, f"{lacks} MIG splits them.")
        return MachineWork(WorkProgress.FAILED, lacks)
    gpus, lacking = _gpus(report, demand)
    if lacking is not None:
        return lacking
    faults = [*_not_passed(report, demand, gpus)]
    if faults:
        return MachineWork(WorkProgress.IMPOSSIBLE, faults[0])
    where = f"{gpus[0]}" if len(gpus) == 1 else f"all {len(gpus)} GPUs"
    words = f"The check has passed on {where}."
    if demand.gpu_uuid and demand.gpu_uuid not in {gpu.uuid for gpu in gpus}:
        words += f" It stands where {demand.gpu_uuid} was."
    return MachineWork(WorkProgress.SUCCEEDED, words)


def _gpus(report: CheckReport, demand: VerificationDemand) -> tuple[list[CheckedGpu], MachineWork | None]:
    """Return the GPUs that must have passed. A replaced GPU has another UUID in the same place."""
    if not demand.gpu_uuid and not demand.gpu_bus_id:
        return list(report.gpus), None
    same = [gpu for gpu in report.gpus if demand.gpu_uuid and gpu.uuid == demand.gpu_uuid]
    found = same or [gpu for gpu in report.gpus if demand.gpu_bus_id and gpu.bus_id == demand.gpu_bus_id]
    if found:
        return found, None
    name = str(CheckedGpu(demand.gpu_uuid or demand.gpu_bus_id, demand.gpu_bus_id * bool(demand.gpu_uuid)))
    lacks = f"{name} is not among the {len(report.gpus)} GPUs that were checked."
    # Without its place nobody can tell a new GPU from the others.
    surely_gone = bool(demand.gpu_bus_id) and not demand.is_split
    return [], MachineWork(WorkProgress.FAILED if surely_gone else WorkProgress.IMPOSSIBLE, lacks)


def _not_passed(report: CheckReport, demand: VerificationDemand, gpus: list[CheckedGpu]) -> Iterator[str]:
    for gpu in gpus:
        own = [check for check in report.checks if _is_of(check, gpu)]
        for name in demand.checks:
            found = [check for check in own if check.name == name]
            if name in OF_ALL_TOGETHER:
                found = [check for check in report.checks if check.name == name]
            if not found:
                why = next((f" {check.words}" for check in own if check.outcome in UNTRIED), "")
                yield f"{name} was not run on {gpu}.{why}"
            yield from _short(found, str(gpu))
    if demand.needs_network:
        yield from _ports(report, demand)


def _ports(report: CheckReport, demand: VerificationDemand) -> Iterator[str]:
    found = {check.port: check for check in report.checks if check.name == NETWORK}
    for port in sorted(demand.ports):
        if port not in found:
            yield f"{NETWORK} was not run on the port {port}."
        else:
            yield from _short([found[port]], f"the port {port}")
    if not any(check.outcome == "passed" for check in found.values()):
        words = next((f" {check.words}" for check in found.values()), "")
        yield f"{NETWORK} has passed on no port.{words}"


def _short(found: list[CheckFound], where: str) -> Iterator[str]:
    for check in found:
        if check.outcome != "passed":
            said = SHORT_OF_A_PASS.get(check.outcome, "{name} on {where} says neither: {words}")
            yield said.format(name=check.name, where=where, words=check.words)


def _is_of(check: CheckFound, gpu: CheckedGpu) -> bool:
    return bool(
        (check.gpu_uuid and check.gpu_uuid == gpu.uuid)
        or (not check.gpu_uuid and check.gpu_bus_id and check.gpu_bus_id == gpu.bus_id)
    )
