"""What the workers have counted themselves, read from the `/metrics` of each."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPConnection, HTTPException

from prometheus_client.parser import text_string_to_metric_families

from gateway.errors import GatewayUnreachable
from gateway.latency import BOUNDS_MS, Histogram
from gateway.routes import WorkerEndpoint
from gateway.traffic import TargetCounts

WITHIN_SECONDS = 2.0
SIDE_BY_SIDE = 16


class WorkerCounters:
    """A `TrafficMetrics`. Of each target the sum over its workers that answer.

    Which processes those are is the `epoch`: when a worker starts, ends or does not answer, it is another,
    so that a sum is only ever compared with one over the same processes.
    """

    def __init__(self, workers_of: Callable[[str], Mapping[str, Sequence[WorkerEndpoint]]]) -> None:
        """`workers_of` a route: where the workers of each of its targets are; raises UnknownRoute."""
        self._workers_of = workers_of

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        targets = self._workers_of(route)
        asked = sorted({one for workers in targets.values() for one in workers})
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            answers = dict(zip(asked, pool.map(_read, asked), strict=True))
        if asked and not any(answers.values()):
            raise GatewayUnreachable(f"None of the {len(asked)} workers of {route} answers.")
        return {
            target: summed(reading for one in workers if (reading := answers[one]) is not None)
            for target, workers in targets.items()
        }


@dataclass(frozen=True, slots=True)
class WorkerReading:
    """The counts of one worker."""

    process: str
    started_at: datetime
    numbers: Mapping[tuple[str, str], float]
    """By name and labels, as `labels_text` writes them."""


def _read(worker: WorkerEndpoint) -> WorkerReading | None:
    """Read a worker's counts; None: it does not answer, or is no worker of ours."""
    connection = HTTPConnection(worker.address, worker.port, timeout=WITHIN_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            return None
        numbers = {
            (sample.name, labels_text(sample.labels)): sample.value
            for family in text_string_to_metric_families(text)
            if family.name.startswith(("slipway_worker_", "process_start_time"))
            for sample in family.samples
        }
        started = numbers["process_start_time_seconds", ""]
    except (OSError, HTTPException, ValueError, KeyError):
        return None
    finally:
        connection.close()
    process = f"{worker.address}:{worker.port}@{started}"
    return WorkerReading(process, datetime.fromtimestamp(started, UTC), numbers)


def labels_text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def summed(workers: Iterable[WorkerReading]) -> TargetCounts:
    readings = list(workers)

    def counted(event: str, chosen_by: str = "gateway") -> int:
        key = ("slipway_worker_traffic_total", f"chosen_by={chosen_by},event={event}")
        return sum(int(one.numbers.get(key, 0)) for one in readings)

    ended, abandoned = counted("ended"), counted("abandoned")
    forced_ended = counted("ended", "client")
    arrived = counted("routed") + counted("routed", "client")
    processes = " ".join(sorted(one.process for one in readings))
    return TargetCounts(
        epoch=sha256(processes.encode()).hexdigest()[:16],
        since=min((one.started_at for one in readings), default=datetime.now(UTC)),
        routed=counted("routed"),
        requests=ended - abandoned,
        errors=counted("errors"),
        broken=counted("broken"),
        abandoned=abandoned,
        forced_requests=forced_ended - counted("abandoned", "client"),
        forced_errors=counted("errors", "client"),
        latency_ms=_histogram("slipway_worker_answer_seconds_bucket", readings),
        first_byte_ms=_histogram("slipway_worker_answer_first_token_seconds_bucket", readings),
        in_flight=max(arrived - ended - forced_ended, 0),
    )


def _histogram(name: str, readings: Sequence[WorkerReading]) -> Histogram:
    counts = dict.fromkeys((*BOUNDS_MS, math.inf), 0)
    for reading in readings:
        for (key, labels), count in reading.numbers.items():
            if key == name:
                seconds = float(labels.removeprefix("le="))
                counts[seconds if math.isinf(seconds) else round(seconds * 1000, 1)] += int(count)
    return tuple(counts.items())
