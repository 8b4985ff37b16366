"""Counts of the workers, read from the `/metrics` of each."""

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
from gateway.worker_figures import IndicatorCount, MethodCount, RouteCount, WorkerFigures

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
        return {target: summed(readings) for target, readings in self._readings(route).items()}

    def figures(self, route: str) -> Mapping[str, WorkerFigures]:
        """Return figures of each target that a gateway cannot know. Raises as `counts`."""
        return {target: figures_of(readings) for target, readings in self._readings(route).items()}

    def _readings(self, route: str) -> Mapping[str, Sequence["WorkerReading"]]:
        targets = self._workers_of(route)
        asked = sorted({one for workers in targets.values() for one in workers})
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            answers = dict(zip(asked, pool.map(_read, asked), strict=True))
        if asked and not any(answers.values()):
            raise GatewayUnreachable(f"None of the {len(asked)} workers of {route} answers.")
        return {
            target: [reading for one in workers if (reading := answers[one]) is not None]
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
    return TargetCounts(
        epoch=_epoch(readings),
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


def _epoch(readings: Sequence[WorkerReading]) -> str:
    processes = " ".join(sorted(one.process for one in readings))
    return sha256(processes.encode()).hexdigest()[:16]


def _histogram(name: str, readings: Sequence[WorkerReading]) -> Histogram:
    counts = dict.fromkeys((*BOUNDS_MS, math.inf), 0)
    for reading in readings:
        for (key, labels), count in reading.numbers.items():
            if key == name:
                counts[_bound_ms(labels.removeprefix("le="))] += int(count)
    return tuple(counts.items())


def _bound_ms(seconds: str) -> float:
    bound = float(seconds)
    return bound if math.isinf(bound) else round(bound * 1000, 1)


def figures_of(readings: Sequence[WorkerReading]) -> WorkerFigures:
    counts = summed(readings)
    named: dict[str, dict[str, float]] = {}
    for reading in readings:
        for (name, text), value in reading.numbers.items():
            of_name = named.setdefault(name, {})
            of_name[text] = of_name.get(text, 0.0) + value

    def labelled(name: str) -> Iterable[tuple[dict[str, str], float]]:
        for text, value in named.get(f"slipway_worker_{name}", {}).items():
            yield dict(one.partition("=")[::2] for one in text.split(",") if one), value

    timings: dict[str, dict[float, int]] = {}
    for labels, count in labelled("timing_seconds_bucket"):
        of = timings.setdefault(labels["of"], dict.fromkeys((*BOUNDS_MS, math.inf), 0))
        of[_bound_ms(labels["le"])] += int(count)
    routes: dict[str, list[int]] = {}
    for labels, count in labelled("requests_total"):
        route = routes.setdefault(labels["route"], [0, 0])
        route[0] += int(count)
        route[1] += int(count) if labels["code"].startswith("5") else 0
    by_method = {
        part: {labels["method"]: value for labels, value in labelled(name)}
        for part, name in (
            ("calls", "batch_size_count"),
            ("items", "batch_size_sum"),
            ("queue", "model_queue_seconds_sum"),
            ("work", "model_seconds_sum"),
        )
    }
    return WorkerFigures(
        epoch=counts.epoch,
        requests=counts.requests,
        indicators={
            labels["name"]: IndicatorCount(int(count), labels["better"] == "lower")
            for labels, count in labelled("indicator_requests_total")
        },
        timings={of: tuple(histogram.items()) for of, histogram in timings.items()},
        routes={route: RouteCount(*counted) for route, counted in routes.items()},
        methods={
            method: MethodCount(
                int(calls),
                int(by_method["items"].get(method, 0)),
                by_method["queue"].get(method, 0.0),
                by_method["work"].get(method, 0.0),
            )
            for method, calls in by_method["calls"].items()
        },
        busy=sum(value for _, value in labelled("busy")) / max(len(readings), 1),
        slots=sum(int(value) for _, value in labelled("slots")),
        queue_depth=sum(int(value) for _, value in labelled("queue_depth")),
    )
