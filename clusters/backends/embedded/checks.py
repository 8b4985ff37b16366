"""What is looked at before a machine is trusted with work."""

from clusters.backends.base import Health, ObservedNode
from clusters.backends.checks import Check
from clusters.states import CheckResult


def checks(health: Health, machine: ObservedNode) -> tuple[Check, ...]:
    if not health.ok:
        return (Check("reachable", CheckResult.FAILED, health.detail),)
    return (Check("reachable", CheckResult.PASSED, health.detail), _gpus(machine))


def _gpus(machine: ObservedNode) -> Check:
    if machine.gpus is None:
        return Check("GPUs", CheckResult.WARNING, machine.problem)
    if not machine.gpus:
        return Check("GPUs", CheckResult.PASSED, "It has none: workers run on its CPUs.")
    return Check("GPUs", CheckResult.PASSED, f"{len(machine.gpus)} × {machine.gpus[0].name}.")
