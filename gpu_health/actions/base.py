"""What the healing of a machine asks of a kind of action."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clusters.backends.base import ObservedNode
from clusters.backends.kinds import abilities_of
from clusters.backends.node_operations import NodeCommand, NodeOperations
from clusters.models import Node
from common.jobs.spec import (
    BY_CIRCUMSTANCE,
    JobContainer,
    JobLimits,
    JobObservation,
    JobSpec,
    JobState,
    owner_of,
)
from gpu_health.healing.facts import MachineWork, WorkProgress
from gpu_health.models import Incident


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """The machine, and what is known of it as the action is taken or looked at."""

    incident: Incident
    node: Node
    operations: NodeOperations
    seen: ObservedNode | None
    """None: it was not looked at, or does not answer at the moment."""


class ActionKind(Protocol):
    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        """Start it, at most once under `order.op_key`. Raises OperationUnsupported, StaleDeploymentFence,
        ClusterUnreachable.
        """

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        """Return how far the action is."""

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        """After a crash, with a later order: whether it was begun. The machine has learned the order's fence
        when this answers, so that nobody who slept meanwhile can begin it. None: nobody can see.
        """


@dataclass(frozen=True, slots=True)
class Command:
    """A program on the machine itself. `always`: run even after one before has failed; `may_fail`: what it
    ends with does not count."""

    argv: tuple[str, ...]
    seconds: float = 120.0
    always: bool = False
    may_fail: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "argv": list(self.argv),
            "seconds": self.seconds,
            "always": self.always,
            "may_fail": self.may_fail,
        }


@dataclass(frozen=True, slots=True)
class JobAction:
    """Commands that a Job runs on the machine, one after the other."""

    name: str
    commands: Sequence[Command] = field(default=())

    def commands_for(self, target: ActionTarget) -> Sequence[Command]:
        return self.commands

    def begin(self, target: ActionTarget, order: NodeCommand) -> None:
        target.operations.run_job(target.node.uid, self.spec(target, order.op_key), order)

    def look(self, target: ActionTarget, op_key: str) -> MachineWork:
        seen = target.operations.jobs(target.node.uid).observe(self.spec(target, op_key).name)
        return work_of(seen, self.name)

    def happened(self, target: ActionTarget, order: NodeCommand) -> bool | None:
        # A job has one name for ever: its second start is none, whoever comes late.
        seen = target.operations.jobs(target.node.uid).observe(self.spec(target, order.op_key).name)
        return seen.state is not JobState.GONE

    def spec(self, target: ActionTarget, op_key: str) -> JobSpec:
        commands = json.dumps([one.to_dict() for one in self.commands_for(target)])
        wall = 60.0 + sum(one.seconds for one in self.commands_for(target))
        argv = (*python_on(target.node), "-m", "serving.repairs", commands)
        return JobSpec(
            op_key,
            job_owner(target.incident),
            argv,
            limits=JobLimits(wall_seconds=wall),
            container=JobContainer(is_privileged=True),
        )


def python_on(node: Node) -> tuple[str, ...]:
    return (sys.executable if abilities_of(node.cluster.kind).runs_on_host else "python3",)


def job_owner(incident: Incident) -> str:
    return owner_of(incident._meta.label_lower, incident.pk)


def work_of(seen: JobObservation, what: str) -> MachineWork:
    """Return the progress of a job that was started before."""
    if seen.is_live:
        return MachineWork(WorkProgress.RUNNING, f"{what} runs.")
    if seen.state is JobState.SUCCEEDED:
        return MachineWork(WorkProgress.SUCCEEDED, f"{what} is done.")
    if seen.state is JobState.GONE:
        return MachineWork(WorkProgress.FAILED, f"No trace of {what} is left.")
    if seen.ending in BY_CIRCUMSTANCE:
        return MachineWork(WorkProgress.FAILED, f"{what} was stopped. {seen.why}".strip())
    told = (seen.result or {}).get("words") or seen.last_words or seen.why
    return MachineWork(WorkProgress.FAILED, f"{what} failed. {told}".strip())


def restarted(target: ActionTarget) -> MachineWork:
    """Whether the machine runs anew since the incident's session."""
    before, seen = target.incident.session, target.seen
    if seen is None or not seen.boot_id or not before:
        return MachineWork(WorkProgress.RUNNING, "The machine is restarting.")
    if seen.boot_id == before:
        return MachineWork(WorkProgress.RUNNING, "The machine has not restarted yet.")
    if not seen.is_ready:
        return MachineWork(WorkProgress.RUNNING, "The machine has restarted and is not ready yet.")
    return MachineWork(WorkProgress.SUCCEEDED, "The machine was restarted and is ready.")
