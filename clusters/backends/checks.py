"""Checks that a backend makes, step by step, before its cluster is trusted with work."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusters.states import CheckResult

RIGHT = "right: "
"""How the name of a check begins that asks whether we may do something there."""


@dataclass(frozen=True, slots=True)
class ClusterCheck:
    name: str
    result: CheckResult
    detail: str
    """Results, and what to do about it, in words."""


def missing_rights(checks: Iterable[Mapping[str, str]]) -> set[str]:
    """Names of those that a cluster should grant and does not; what was left out on purpose is not one."""
    lacking = (CheckResult.WARNING, CheckResult.FAILED)
    return {one["name"] for one in checks if one["name"].startswith(RIGHT) and one["result"] in lacking}
