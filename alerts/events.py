"""Facts of alerts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AlertsFired:
    """Alerts of a group fire; told once per group, and again when it grew, a few minutes apart."""

    group_id: int


@dataclass(frozen=True, slots=True)
class AlertsResolved:
    """All alerts of a group that was told of are resolved."""

    group_id: int
