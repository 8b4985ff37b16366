"""What a backend looks at, step by step, before its cluster is trusted with work."""

from dataclasses import dataclass

from clusters.states import CheckResult

RIGHT = "right: "
"""How the name of a check begins that asks whether we may do something there."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    result: CheckResult
    detail: str
    """Results, and what to do about it, in words."""
