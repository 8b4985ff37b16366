"""Changes of workers' rows, by comparing what the backend sees with what is stored. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.agents import AgentContact
from clusters.alerts import alert_of
from clusters.backends.base import ObservedState, ObservedWorker
from clusters.fleet import LastHeartbeat, WorkerRow
from clusters.models import Worker
from clusters.states import Alert, WorkerState
from clusters.verdicts import READY_FOR_A_WHILE, WorkerFacts, error_line

Endpoint = tuple[str, int]

COLUMNS = (
    "name", "node_id", "address", "port", "pid", "state", "state_since", "restarts", "reason",
    "crashes", "crashes_since", "crashed_at", "crash_line", "alert", "alert_since",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerChanges:
    """The rows as they should be, and what of it is new."""

    workers: Sequence[Worker]
    """All that are there, changed where needed, not saved."""
    fresh: Sequence[Worker]
    changed: Sequence[Worker]
    gone: Sequence[Worker]
    alerted: Sequence[Worker]
    """Those against whom something is said that was not said before."""
    lost_restarts: int
    """Restarts of those who are gone, and of counters that began anew."""
    endpoints_changed: bool

    @property
    def is_news(self) -> bool:
        return bool(self.fresh or self.changed or self.gone)


def note(
    deployment_id: int,
    known: Sequence[Worker],
    seen: Sequence[ObservedWorker],
    *,
    logs: Mapping[str, str],
    heartbeats: Mapping[str, LastHeartbeat] | None,
    nodes: Mapping[str, int],
    agents: Mapping[int, AgentContact],
    now: datetime,
) -> WorkerChanges:
    """`logs`: what those who have ended wrote. `heartbeats`: None while they are not known, so that nobody
    is called lost. Both by the worker's id. `nodes`: id by name. `agents`: those of machines that have one,
    by the machine's id; their silence is no word on workers, which the backend has just seen."""
    rows = {row.uid: row for row in known}
    before = {row.uid: _content(row) for row in known}
    endpoints_before = endpoints_of(known)
    lost_restarts = 0
    workers = []
    for one in seen:
        row = rows.get(one.id) or Worker(deployment_id=deployment_id, uid=one.id, state_since=now)
        lost_restarts += row.restarts if one.restarts < row.restarts else 0
        _update(row, one, nodes.get(one.node), log=logs.get(one.id, ""), now=now)
        _judge_silence(row, heartbeats, agents.get(row.node_id or 0), now=now)
        workers.append(row)
    ids = {row.uid for row in workers}
    gone = [row for row in known if row.uid not in ids]
    return WorkerChanges(
        workers=workers,
        fresh=[row for row in workers if row.uid not in before],
        changed=[row for row in workers if row.uid in before and _content(row) != before[row.uid]],
        gone=gone,
        alerted=[row for row in workers if row.alert and row.alert != before.get(row.uid, {}).get("alert")],
        lost_restarts=lost_restarts + sum(row.restarts for row in gone),
        endpoints_changed=endpoints_of(workers) != endpoints_before,
    )


def has_ended(seen: ObservedWorker, row: Worker | None) -> bool:
    """Whether a process of this worker has ended by itself since the last look."""
    if row is None:
        return seen.restarts > 0 or seen.state == ObservedState.FAILED
    newly_failed = seen.state == ObservedState.FAILED and row.state != WorkerState.FAILED
    return seen.restarts > row.restarts or newly_failed


def endpoints_of(workers: Sequence[Worker]) -> frozenset[Endpoint]:
    return frozenset(
        (row.address, row.port) for row in workers if row.state == WorkerState.READY and row.port
    )


def facts_of(row: Worker) -> WorkerFacts:
    return WorkerFacts(
        name=row.name,
        state=row.state,
        state_since=row.state_since,
        has_process=row.pid is not None,
        reason=row.reason,
        crashes=row.crashes,
        crashes_since=row.crashes_since,
        crashed_at=row.crashed_at,
        crash_line=row.crash_line,
    )


def _content(row: Worker) -> dict[str, Any]:
    return {name: getattr(row, name) for name in COLUMNS}


def _update(row: Worker, seen: ObservedWorker, node_id: int | None, *, log: str, now: datetime) -> None:
    ends = max(0, seen.restarts - row.restarts)
    state = WorkerState(seen.state)
    if ends:
        row.crashes += ends
        row.crashes_since = row.crashes_since or now
        row.crashed_at = now
    if log:
        row.crash_line = error_line(log)
    if state != row.state or ends:
        row.state, row.state_since = state, now
    if row.crashes and state == WorkerState.READY and now - row.state_since >= READY_FOR_A_WHILE:
        row.crashes, row.crashes_since, row.crashed_at, row.crash_line = 0, None, None, ""
    row.name = seen.name
    row.node_id = node_id
    row.address = seen.address
    row.port = seen.port
    row.pid = seen.pid
    row.restarts = seen.restarts
    row.reason = seen.reason


def _judge_silence(
    row: Worker,
    heartbeats: Mapping[str, LastHeartbeat] | None,
    agent: AgentContact | None,
    *,
    now: datetime,
) -> None:
    if heartbeats is None:
        return
    facts = WorkerRow(
        pk=0,
        uid=row.uid,
        name=row.name,
        deployment_id=0,
        node_id=None,
        pid=row.pid,
        state=row.state,
        state_since=row.state_since,
        restarts=row.restarts,
        reason="",
        alert=row.alert,
    )
    alert = alert_of(facts, heartbeats.get(row.uid), agent=agent, now=now)
    if alert != row.alert:
        row.alert, row.alert_since = alert, (None if alert == Alert.NONE else now)
