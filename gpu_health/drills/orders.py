"""What a drill has the machine play, as jobs of `python -m serving.drills` there."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from clusters.backends.kinds import abilities_of
from clusters.backends.node_operations import OperationUnsupported
from clusters.models import Node
from common.jobs.spec import JobContainer, JobLimits, JobSpec
from gpu_health.actions.base import ActionTarget, JobAction, job_owner, python_on
from gpu_health.models import Drill

AGENTS = "/var/lib/slipway/agent"
"""Of machines whose agent is the DaemonSet of deploy/agents: the directory that is the agent's there."""
ON_THE_MACHINE = f"{AGENTS}/drill"
WALL_SECONDS = 60.0
HEALTHY = ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Fri Dec 27 03:43:14 UTC 2024",)
"""Of the played driver: the first that the agent tells."""


def place_of(node: Node) -> str:
    """The directory that the agent of the machine was told by `--drill`."""
    if abilities_of(node.cluster.kind).runs_on_host:
        return str(settings.SLIPWAY_RUN_DIR / "drill")
    return ON_THE_MACHINE


def drill_job(node: Node, drill_pk: int, order: Mapping[str, Any], *, op_key: str, owner: str) -> JobSpec:
    document = json.dumps({"drill": drill_pk, **order})
    return JobSpec(
        op_key,
        owner,
        (*python_on(node), "-m", "serving.drills", place_of(node), document),
        limits=JobLimits(wall_seconds=WALL_SECONDS),
        # It writes to the agent's directory alone: clusters that let no privileged pod run take it, too.
        container=JobContainer(directories=(AGENTS,)),
    )


def healthy_order(drill: Drill) -> dict[str, Any]:
    return {"order": "play", "gpus": drill.gpus, "gpu": drill.gpu, "kernel": list(HEALTHY)}


def fault_order(drill: Drill, played: Mapping[str, Any]) -> dict[str, Any]:
    """`played`: the part of the scenario that is the agent's."""
    return {"order": "play", "gpus": drill.gpus, "gpu": drill.gpu, "breaks": True, **played}


@dataclass(frozen=True, slots=True)
class PlayedAction(JobAction):
    """An action of the ladder as drills take it: a Job on the machine, which does nothing to the machine."""

    def spec(self, target: ActionTarget, op_key: str) -> JobSpec:
        drill = _drill_of(target)
        heals = drill.played is not None and drill.played.heals(self.name)
        order = {"order": "repair", "action": self.name, "heals": heals}
        owner = job_owner(target.incident)
        return drill_job(target.node, drill.pk, order, op_key=op_key, owner=owner)


def check_order(target: ActionTarget, op_key: str, checks: Sequence[str]) -> JobSpec:
    """The verification of a drill: whether the played GPUs are whole, by these `checks`."""
    drill = _drill_of(target)
    order = {"order": "check", "gpus": drill.gpus, "checks": list(checks)}
    return drill_job(target.node, drill.pk, order, op_key=op_key, owner=job_owner(target.incident))


def _drill_of(target: ActionTarget) -> Drill:
    drill = target.incident.drill
    if drill is None:
        raise OperationUnsupported("The drill is gone.")
    return drill
