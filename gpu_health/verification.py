"""The check Job of a machine that was acted on, and what its result says."""

from collections.abc import Mapping
from typing import Any

from clusters.models import Node
from common.jobs.spec import BY_CIRCUMSTANCE, Container, JobObservation, JobSpec, JobState, Limits
from gpu_health.actions.base import Target, job_owner, python_on
from gpu_health.drills.orders import check_order
from gpu_health.healing.facts import Progress, Work
from gpu_health.states import RuleVerification

LEVELS: Mapping[str, int] = {
    RuleVerification.CHECK_JOB: 2,
    RuleVerification.DCGM_DIAGNOSTIC: 2,
    RuleVerification.NCCL_BANDWIDTH: 2,
}
WALL_SECONDS: Mapping[int, float] = {1: 300.0, 2: 1_800.0, 3: 7_200.0}
"""By level, with what DCGM takes where it is installed."""


def check_job(node: Node, level: int, *, op_key: str, owner: str) -> JobSpec:
    argv = (*python_on(node), "-m", "serving.checks", "gpu", "--level", str(level), "--json")
    limits = Limits(wall_seconds=WALL_SECONDS[level])
    return JobSpec(op_key, owner, argv, limits=limits, container=Container(is_privileged=True))


def check_spec(target: Target, op_key: str) -> JobSpec:
    if target.incident.drill_id is not None:
        return check_order(target, op_key)
    level = LEVELS[target.incident.verification]
    return check_job(target.node, level, op_key=op_key, owner=job_owner(target.incident))


def judged(seen: JobObservation) -> Work:
    """A check that could not be tried says nothing of the machine: a person does."""
    if seen.is_live:
        return Work(Progress.RUNNING, "The check runs.")
    result = seen.result
    if result is None or seen.ending in BY_CIRCUMSTANCE:
        why = seen.last_words or seen.why or "It left no result."
        return Work(Progress.IMPOSSIBLE, f"The machine could not be checked. {why}")
    if result.get("passed") is True and seen.state is JobState.SUCCEEDED:
        return Work(Progress.SUCCEEDED, "The check has passed.")
    failed = failures(result)
    if not failed:
        return Work(Progress.IMPOSSIBLE, "Nothing of the machine could be checked.")
    return Work(Progress.FAILED, f"The check failed: {failed[0]}")


def failures(result: Mapping[str, Any]) -> list[str]:
    """Sentences, one for each check that failed."""
    return [
        str(one.get("words") or one.get("name") or "a check failed")
        for one in result.get("checks", [])
        if one.get("outcome") == "failed" or one.get("passed") is False
    ]
