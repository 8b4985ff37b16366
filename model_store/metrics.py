"""Prometheus metrics of the store."""

from collections.abc import Iterator

from prometheus_client.metrics_core import Metric

from common.metrics import gauge
from model_store import selectors


def store_findings() -> Iterator[Metric]:
    counts = selectors.corrupt_blobs_by_state()
    samples = [((state,), float(number)) for state, number in counts.items()]
    yield gauge("store_findings", "Damaged or missing files of the model store.", ("state",), samples)
