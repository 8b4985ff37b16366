"""Figures of a service beside those that every worker has: batches, model times, indicators."""

from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from serving.desk import ModelCall, Progress, RequestWork
from serving.loop_metrics import LoopCounter, LoopHistogram
from serving.metrics import REQUEST_BUCKETS, WorkerMetrics

_CALL = ("method", "sent_at", "queued", "worked", "batch_size")
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, *REQUEST_BUCKETS[2:])


class ServiceMetrics:
    """Counts what CPU processes report with their answers."""

    def __init__(self, worker: WorkerMetrics, registry: CollectorRegistry) -> None:
        self.arrived = worker.arrived
        self._batch = LoopHistogram(
            "slipway_worker_batch_size",
            "Size of the batch that a call of a model was answered in.",
            ["method"],
            buckets=_SIZES,
            registry=registry,
        )
        self._queue = LoopHistogram(
            "slipway_worker_model_queue_seconds",
            "From a call of a model to the start of its batch.",
            ["method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._work = LoopHistogram(
            "slipway_worker_model_seconds",
            "How long the batch of a call took.",
            ["method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._indicated = worker.indicated
        self._better: dict[str, str] = {}
        self._indicators = LoopCounter(
            "slipway_worker_indicator",
            "Sum of an indicator of the service's own.",
            ["name"],
            registry=registry,
        )

    def declare(self, indicators: Sequence[tuple[str, str, bool]]) -> None:
        """Make figures of the app's indicators: (name, help, whether lower is better)."""
        for name, _, lower_is_better in indicators:
            self._better[name] = "lower" if lower_is_better else "higher"
            self._indicated.labels(name, self._better[name])
            self._indicators.labels(name)

    def observe(self, meta: dict[str, Any], progress: Progress | None = None) -> None:
        """Count what came with an answer. `progress`: of the request that somebody waits for; None: of a
        job, which no release is judged by."""
        calls = [ModelCall(**dict(zip(_CALL, one, strict=True))) for one in meta.get("calls", ())]
        if progress is not None and (work := meta.get("work")) is not None:
            process, began_at, ended_at = work
            progress.work = RequestWork(process=process, began_at=began_at, ended_at=ended_at, calls=calls)
        for call in calls:
            self._batch.labels(call.method).observe(call.batch_size)
            self._queue.labels(call.method).observe(call.queued / 1e9)
            self._work.labels(call.method).observe(call.worked / 1e9)
        for name, value in meta.get("indicated", {}).items():
            if value >= 0:
                self._indicators.labels(name).inc(value)
            if value > 0 and progress is not None and progress.chosen_by == "gateway":
                self._indicated.labels(name, self._better.get(name, "lower")).inc()
