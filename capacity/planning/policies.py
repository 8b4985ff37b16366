"""Policies: what a team sets of the law of scaling; the rest follows from the measured switch time."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from capacity.planning.errors import PlanningError
from capacity.planning.law import ScalingLaw, law_for

SETTABLE = ("target", "hold_seconds", "decrease_band", "drain_seconds", "increase_from")


def law_with(switch_seconds: float, changes: Mapping[str, Any]) -> ScalingLaw:
    """The law for a switch time, with what a policy sets. Raises PlanningError naming the field."""
    for name, value in changes.items():
        if name not in SETTABLE:
            raise PlanningError(name, f"A law has no {name}; it has {', '.join(SETTABLE)}.")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PlanningError(name, f"{value!r} is not a number.")
    return replace(law_for(switch_seconds), **changes)
