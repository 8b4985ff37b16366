"""What a backend looks at, step by step, before its cluster is trusted with work."""

from dataclasses import dataclass
from enum import StrEnum


class CheckResult(StrEnum):
    """The same words as clusters.states.CheckResult."""

    PASSED = "passed"
    WARNING = "warning"
    """Something does not work without it; the rest does."""
    FAILED = "failed"
    """Nothing can be released to the cluster."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    result: CheckResult
    detail: str
    """What was found, and what to do about it, in words."""
