"""Checks made before a machine is trusted with work."""

from clusters.backends.base import ClusterHealth, ObservedNode
from clusters.backends.checks import ClusterCheck
from clusters.states import CheckResult


def checks(health: ClusterHealth, machine: ObservedNode) -> tuple[ClusterCheck, ...]:
    if not health.ok:
        return (ClusterCheck("reachable", CheckResult.FAILED, health.detail),)
    return (ClusterCheck("reachable", CheckResult.PASSED, health.detail), _gpus(machine))


def _gpus(machine: ObservedNode) -> ClusterCheck:
    if machine.gpus is None:
        return ClusterCheck("GPUs", CheckResult.WARNING, machine.problem)
    if not machine.gpus:
        return ClusterCheck("GPUs", CheckResult.PASSED, "It has none: workers run on its CPUs.")
    return ClusterCheck("GPUs", CheckResult.PASSED, f"{len(machine.gpus)} × {machine.gpus[0].name}.")
