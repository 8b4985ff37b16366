"""Counters of workers as figures: rates of the last seconds for pages, times of the last minute for plans.

Pure: documents in, documents out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from graphs.digests import digest_of
from graphs.workers import GraphWorker

Document = dict[str, Any]
TASK_TOTALS = ("items", "failed", "retried", "busy_seconds", "restarts", "bytes_in", "bytes_out")


def look_of(
    seen: Mapping[GraphWorker, Document | None], before: Mapping[str, Document], *, digest: str, at: datetime
) -> Document:
    """Return what pages show. `before`: totals by worker at the last look. `digest`: of the graph; workers of
    another one are named, and not counted."""
    deltas = [since(now, before.get(name)) for name, now in totals_of(seen, digest).items()]
    current = [one for one in seen.values() if one and one.get("digest") == digest]
    return {
        "at": at.isoformat(),
        "workers": [_worker(worker, status, digest) for worker, status in seen.items()],
        "rate": sum(one["done"] / one["elapsed"] for one in deltas),
        "failed": sum(one["failed"] for one in deltas),
        "in_flight": sum(one["in_flight"] for one in current),
        "waiting": sum(one["waiting"] for one in current),
        "memory_bytes": sum(one["memory_bytes"] for one in current),
        "tasks": {
            name: _task(name, deltas, [one["tasks"][name] for one in current])
            for name in (current[0]["tasks"] if current else ())
        },
    }


def _worker(worker: GraphWorker, status: Mapping[str, Any] | None, digest: str) -> Document:
    status = status or {}
    return {
        "name": worker.name,
        "machine": worker.machine,
        "is_heard": bool(status),
        "is_current": status.get("digest") == digest,
        "plan": digest_of(status["plan"]) if "plan" in status else "",
        "is_switching": status.get("is_switching", False),
        "problem": status.get("switch_problem", ""),
    }


def totals_of(seen: Mapping[GraphWorker, Document | None], digest: str) -> dict[str, Document]:
    """Return by worker of the graph the counters that only grow while its executor lives."""
    return {
        worker.name: _totals(status)
        for worker, status in seen.items()
        if status and status.get("digest") == digest
    }


def _totals(status: Mapping[str, Any]) -> Document:
    return {
        "elapsed": status["elapsed_seconds"],
        "done": status["done"],
        "failed": status["failed"],
        "tasks": {
            name: {key: one[key] for key in TASK_TOTALS}
            | {
                "peak": one["peak_memory_bytes"],
                "sizes": {
                    size: [each["calls"], each["seconds"], each["cpu_seconds"]]
                    for size, each in one["sizes"].items()
                },
            }
            for name, one in status["tasks"].items()
        },
    }


def since(now: Mapping[str, Any], then: Mapping[str, Any] | None) -> Document:
    """Return the growth of counters; all of them where the executor was started meanwhile."""
    if then is None or then["elapsed"] >= now["elapsed"] or then["tasks"].keys() != now["tasks"].keys():
        then = {"elapsed": 0.0, "done": 0, "failed": 0, "tasks": {}}
    tasks = {}
    for name, one in now["tasks"].items():
        old = then["tasks"].get(name, {})
        sizes = old.get("sizes", {})
        tasks[name] = {key: one[key] - old.get(key, 0) for key in TASK_TOTALS} | {
            "peak": one.get("peak", 0),
            "sizes": {
                size: [a - b for a, b in zip(values, sizes.get(size, (0, 0.0, 0.0)), strict=True)]
                for size, values in one["sizes"].items()
            },
        }
    return {
        "elapsed": max(now["elapsed"] - then["elapsed"], 1e-3),
        "done": now["done"] - then["done"],
        "failed": now["failed"] - then["failed"],
        "tasks": tasks,
    }


def _task(name: str, deltas: Sequence[Document], now: Sequence[Mapping[str, Any]]) -> Document:
    grown = [(one["tasks"][name], one["elapsed"]) for one in deltas]
    calls = sum(values[0] for one, _ in grown for values in one["sizes"].values())
    units = sum(int(size) * values[0] for one, _ in grown for size, values in one["sizes"].items())
    replicas = sum(one["replicas"] for one in now)
    busy = sum(one["busy_seconds"] / seconds for one, seconds in grown)
    return {
        "rate": sum(one["items"] / seconds for one, seconds in grown),
        "failed": sum(one["failed"] for one, _ in grown),
        "restarts": sum(one["restarts"] for one, _ in grown),
        "queued": sum(one["queued"] for one in now),
        "running": sum(one["running"] for one in now),
        "replicas": replicas,
        "busy": min(1.0, busy / replicas) if replicas else 0.0,
        "batch": units / calls if calls else 0.0,
    }


BatchSizes = dict[int, tuple[int, float]]
"""Calls and their mean seconds by size of the batch."""


def batch_times(windows: Iterable[Document]) -> dict[str, BatchSizes]:
    """Return by task the times of batches of several workers together, out of growths of their counters."""
    found: dict[str, BatchSizes] = {}
    for window in windows:
        for name, task in window["tasks"].items():
            sizes = found.setdefault(name, {})
            for size, (calls, seconds, _) in task["sizes"].items():
                before = sizes.get(int(size), (0, 0.0))
                if count := before[0] + calls:
                    sizes[int(size)] = (count, (before[0] * before[1] + seconds) / count)
    return found


def calls_of(windows: Iterable[Document]) -> dict[str, int]:
    """Return by task how many calls ended well in windows of several workers."""
    found: Counter[str] = Counter()
    for window in windows:
        found.update({name: task["items"] for name, task in window["tasks"].items()})
    return dict(found)


def peaks_of(windows: Iterable[Document]) -> dict[str, int]:
    """Return by task the most memory that a process of any worker has held, in bytes."""
    found: dict[str, int] = {}
    for window in windows:
        for name, task in window["tasks"].items():
            found[name] = max(found.get(name, 0), task["peak"])
    return found
