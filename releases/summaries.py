from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ServiceSummary:
    """Facts that a service's row does not hold itself."""

    state: str
    """One of `releases.condition.STATES`."""
    reason: str
    """Why it is degraded, failing or down; empty when nothing is wrong."""
    stable: str | None
    candidate: str | None
    candidate_name: str
    """Its name within the model; empty without one."""
    release_id: int | None
    weights: dict[str, Any]
    url: str
