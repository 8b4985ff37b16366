"""Alerts that heartbeats raise against a worker: one table entry each. Pure: no clock, no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from clusters.agents import AgentContact
from clusters.events import WorkerLost, WorkerStuck
from clusters.states import Alert, WorkerState
from serving.protocol import LOST_AFTER_SECONDS

if TYPE_CHECKING:
    # The fleet shows alerts, and an alert is judged from two of its rows.
    from clusters.fleet import LastHeartbeat, WorkerRow

SATURATED_AFTER_SECONDS = 10.0
STUCK_AFTER_SECONDS = 60.0
SERVING = frozenset({WorkerState.READY, WorkerState.DRAINING})


@dataclass(frozen=True, slots=True)
class WorkerAlert:
    alert: Alert
    holds: Callable[["WorkerRow", "LastHeartbeat | None", AgentContact | None, datetime], bool]
    reason: Callable[["WorkerRow", "LastHeartbeat | None"], str]
    """A sentence for people."""
    event: Callable[[int], object] | None = None
    """What is published of a worker's id when it begins; None: nothing."""
    is_trouble: bool = True
    """Somebody is to look; otherwise it is only full."""


def alert_of(
    row: "WorkerRow", heartbeat: "LastHeartbeat | None", *, now: datetime, agent: AgentContact | None = None
) -> Alert:
    """The worst that speaks against a worker. `agent`: of its machine; None: it has none, or its silence is
    no excuse since nobody else looks after the worker either."""
    return next((one.alert for one in ALERTS if one.holds(row, heartbeat, agent, now)), Alert.NONE)


def reason_of(alert: str, row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> str:
    """Return why there is an alert; empty: there is none."""
    found = alert_named(alert)
    return found.reason(row, heartbeat) if found else ""


def alert_named(alert: str) -> WorkerAlert | None:
    return next((one for one in ALERTS if one.alert == alert), None)


def is_trouble(alert: str) -> bool:
    found = alert_named(alert)
    return found is not None and found.is_trouble


def rank_of(alert: str) -> int:
    """The worst trouble is 0; what is none comes after all that is."""
    troubles = [one.alert for one in ALERTS if one.is_trouble]
    return next((rank for rank, one in enumerate(troubles) if one == alert), len(troubles))


def _is_lost(
    row: "WorkerRow", heartbeat: "LastHeartbeat | None", agent: AgentContact | None, now: datetime
) -> bool:
    """Silence counts from the last heartbeat, or from when the present process became ready; where the
    machine has an agent, only as far as the agent was heard meanwhile.

    One that is still starting has not begun to report: its silence means nothing, unless it is not the first
    process, or has been ready: paused or hung, it answers no check of its cluster either.
    """
    if row.state == WorkerState.STARTING and not _was_ready(row, heartbeat):
        return row.restarts > 0
    silent_seconds = (now - row.state_since).total_seconds()
    if heartbeat is not None:
        silent_seconds = min(silent_seconds, heartbeat.age_seconds)
    if agent is not None:
        silent_seconds = agent.noticed(silent_seconds)
    return row.state in {*SERVING, WorkerState.STARTING} and silent_seconds > LOST_AFTER_SECONDS


def _was_ready(row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> bool:
    """Return whether the first process of a worker has said that it was ready."""
    if row.restarts:
        return False
    if heartbeat is None:  # forgotten after a minute
        return row.alert == Alert.LOST
    return heartbeat.state in SERVING and row.pid in (None, heartbeat.pid)


def _why_lost(row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> str:
    if row.state == WorkerState.STARTING and not _was_ready(row, heartbeat):
        return row.reason or _("Its process ended; the next one does not answer yet.")
    heard = (
        _("No heartbeat for %(amount)s s") % {"amount": f"{heartbeat.age_seconds:.0f}"}
        if heartbeat
        else _("No heartbeat")
    )
    said = _("%(heard)s, although its process runs.") % {"heard": heard}
    return f"{said} {row.reason}".strip()


def _full(row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> "LastHeartbeat | None":
    """Return the heartbeat if all slots are busy; None: a slot is free, or the worker does not say."""
    return heartbeat if heartbeat and heartbeat.full_seconds and row.state in SERVING else None


def _is_stuck(
    row: "WorkerRow", heartbeat: "LastHeartbeat | None", _agent: AgentContact | None, _now: datetime
) -> bool:
    full = _full(row, heartbeat)
    return full is not None and full.unfinished_seconds >= STUCK_AFTER_SECONDS


def _why_stuck(row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> str:
    if heartbeat is None:
        return row.reason
    return _("All of its %(slots)s slots are busy, and no request has ended for %(seconds)s s.") % {
        "slots": heartbeat.slots,
        "seconds": f"{heartbeat.unfinished_seconds:.0f}",
    }


def _is_saturated(
    row: "WorkerRow", heartbeat: "LastHeartbeat | None", _agent: AgentContact | None, _now: datetime
) -> bool:
    full = _full(row, heartbeat)
    return full is not None and full.full_seconds >= SATURATED_AFTER_SECONDS


def _why_saturated(row: "WorkerRow", heartbeat: "LastHeartbeat | None") -> str:
    if heartbeat is None:
        return row.reason
    return _("All of its %(slots)s slots have been busy for %(seconds)s s; requests still complete.") % {
        "slots": heartbeat.slots,
        "seconds": f"{heartbeat.full_seconds:.0f}",
    }


ALERTS = (
    WorkerAlert(Alert.LOST, _is_lost, _why_lost, WorkerLost),
    WorkerAlert(Alert.STUCK, _is_stuck, _why_stuck, WorkerStuck),
    WorkerAlert(Alert.SATURATED, _is_saturated, _why_saturated, is_trouble=False),
)
"""The worst first."""
