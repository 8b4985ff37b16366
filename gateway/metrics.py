"""What Prometheus reads of the traffic of models: the gateway's counts as they were kept last."""

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone
from prometheus_client.metrics_core import Metric

from common.metrics import counter, histogram
from gateway import selectors

KEPT_FOR = timedelta(minutes=3)
"""The counts are kept once a minute; older ones are of a gateway that cannot be asked."""
LABELS = ("service", "version", "side")


def traffic() -> Iterator[Metric]:
    """One query; two versions of a service at most."""
    found = selectors.counts_by_version(since=timezone.now() - KEPT_FOR)
    yield counter(
        "service_requests",
        "Requests that a version of a service has answered through the gateway.",
        LABELS,
        [((one.service, one.version, one.side), float(one.counts.requests)) for one in found],
    )
    yield counter(
        "service_errors",
        "Those answered 500 to 599, or cut off.",
        LABELS,
        [((one.service, one.version, one.side), float(one.counts.errors)) for one in found],
    )
    yield histogram(
        "service_request_duration_seconds",
        "From the first byte of a request to the last of its answer, of good answers.",
        LABELS,
        [
            (
                (one.service, one.version, one.side),
                [(bound / 1000, number) for bound, number in one.counts.latency_ms],
                None,
            )
            for one in found
            if one.counts.latency_ms
        ],
    )
