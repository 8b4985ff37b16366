"""Figures of a service beside those that every worker has: batches, model times, indicators."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from serving.desk import Progress
from serving.metrics import REQUEST_BUCKETS, WorkerMetrics

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, *REQUEST_BUCKETS[2:])


class ServiceMetrics:
    """Counts what CPU processes report with their answers."""

    def __init__(self, worker: WorkerMetrics, registry: CollectorRegistry) -> None:
        self.arrived = worker.arrived
        self._batch = Histogram(
            "slipway_worker_batch_size",
            "Size of the batch that a call of a model was answered in.",
            ["method"],
            buckets=_SIZES,
            registry=registry,
        )
        self._queue = Histogram(
            "slipway_worker_model_queue_seconds",
            "From a call of a model to the start of its batch.",
            ["method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._work = Histogram(
            "slipway_worker_model_seconds",
            "How long the batch of a call took.",
            ["method"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._indicators = Counter(
            "slipway_worker_indicator",
            "Sum of an indicator of the service's own.",
            ["name"],
            registry=registry,
        )

    def observe(self, meta: dict[str, Any]) -> None:
        for method, queued, worked, size in meta.get("calls", ()):
            self._batch.labels(method).observe(size)
            self._queue.labels(method).observe(queued / 1e9)
            self._work.labels(method).observe(worked / 1e9)
        for name, value in meta.get("indicated", {}).items():
            if value >= 0:
                self._indicators.labels(name).inc(value)


__all__ = ["Progress", "ServiceMetrics"]
