"""How far a step of a release has come: what its kind tells of it in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from releases.models import Release, ReleaseStep
from releases.plans.plan import PlanSpec


@dataclass(frozen=True, slots=True)
class StepProgress:
    """A step that has begun."""

    release: Release
    plan: PlanSpec
    index: int
    rows: Sequence[ReleaseStep]
    """All of the release's, in order."""
    state: str
    """As the strip shows it: a `StepState`, or `waiting`, `paused`, `stuck`."""
    is_over: bool
    known: Mapping[str, Any]
    """What it has gathered, or gathers."""
