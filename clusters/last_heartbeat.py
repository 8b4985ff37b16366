"""The last heartbeat of a worker, as it was recorded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LastHeartbeat:
    """The last heartbeat of a worker, of whichever of its processes."""

    pid: int
    state: str
    reason: str
    busy: float
    in_flight: int
    slots: int
    queue_depth: int
    requests: int
    age_seconds: float
    full_seconds: float
    """For how long `busy` has been 1.0 without a break; 0.0 when it is not."""
    ttft_seconds: float | None = None
    """Time to first token, P95 of the last minute; None without requests."""
    unfinished_seconds: float = 0.0
    """For how long it has had requests in flight of which none has ended."""
    code_runs: str = ""
    """As which user a team's own code runs; empty: it runs none."""
    group: str = ""
    jobs_running: int = 0
    """As in `serving.protocol.Heartbeat`."""
    refused: int = 0
    """Since its process began."""
    abilities: tuple[str, ...] = ()
    adapters: tuple[Mapping[str, str], ...] = ()
    """As `serving.protocol.AdapterReport`."""
    process: str = ""
    """Another one after each start."""
    prompt_lengths: tuple[int, ...] = ()
    answer_lengths: tuple[int, ...] = ()
    """As in `serving.protocol.Heartbeat`."""
    deployment: str = ""
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As `requests`, since its process began."""
    load_seconds: float | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any], *, age_seconds: float, now: float) -> "LastHeartbeat":
        """`record` as `clusters.heartbeat_records` makes it; `now` in seconds since 1970."""
        full_since, unfinished_since = record["full_since"], record.get("unfinished_since")
        return cls(
            pid=record["pid"],
            state=record["state"],
            reason=record["reason"],
            busy=record["busy"],
            in_flight=record["in_flight"],
            slots=record["slots"],
            queue_depth=record["queue_depth"],
            requests=record["counters"]["requests"],
            age_seconds=age_seconds,
            full_seconds=0.0 if full_since is None else max(0.0, now - full_since),
            abilities=tuple(record.get("abilities", ())),
            adapters=tuple(record.get("adapters", ())),
            ttft_seconds=record["ttft"]["p95_ms"] / 1000 if record.get("ttft") else None,
            code_runs=record.get("code_runs", ""),
            group=record.get("group", ""),
            jobs_running=record.get("jobs_running", 0),
            refused=record["counters"].get("refused", 0),
            process=f"{record['worker']}@{record['started_at']:.0f}",
            prompt_lengths=tuple(record.get("prompt_lengths", ())),
            answer_lengths=tuple(record.get("answer_lengths", ())),
            deployment=record.get("deployment", ""),
            errors=record["counters"].get("errors", 0),
            prompt_tokens=record["counters"].get("prompt_tokens", 0),
            completion_tokens=record["counters"].get("completion_tokens", 0),
            load_seconds=record.get("load_seconds"),
            unfinished_seconds=0.0 if unfinished_since is None else max(0.0, now - unfinished_since),
        )
