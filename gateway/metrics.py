"""Prometheus metrics of the traffic of models: the gateway's counts as they were kept last."""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client.metrics_core import Metric

from common import clock
from common.metrics import counter, gauge, histogram
from gateway import selectors
from gateway.slowness import service_speeds
from gateway.version_counts import VersionCounts, counts_by_version

KEPT_FOR = timedelta(minutes=3)
"""The counts are kept once a minute; older ones are of a gateway that cannot be asked."""
LABELS = ("service", "version", "side", "epoch")
"""Of an `epoch` no figure falls. Without it Prometheus would take the start of one worker, by which the sum
over all falls, for a start of all."""


def gateways() -> Iterator[Metric]:
    """Return the gateways by one query. Those that nobody has seen lately, or behind an API server that does
    not answer, have no sample.
    """
    yield gauge(
        "gateway_up",
        "1 when the gateway of a cluster answers and has taken its routes; missing while that is not known.",
        ("cluster",),
        [((row.cluster.name,), float(row.is_healthy)) for row in selectors.gateways_seen_lately()],
    )


def traffic() -> Iterator[Metric]:
    """Return the traffic by one query; two versions of a service at most."""
    found = counts_by_version(since=clock.now() - KEPT_FOR)
    yield counter(
        "service_requests",
        "Requests that a version of a service has answered through the gateway.",
        LABELS,
        [(_labels(one), float(one.counts.requests)) for one in found],
    )
    yield counter(
        "service_errors",
        "Those answered 500 to 599, or cut off.",
        LABELS,
        [(_labels(one), float(one.counts.errors)) for one in found],
    )
    yield histogram(
        "service_request_duration_seconds",
        "From the first byte of a request to the last of its answer, of good answers.",
        LABELS,
        [
            (
                _labels(one),
                [(bound / 1000, number) for bound, number in one.counts.latency_ms],
                None,
            )
            for one in found
            if one.counts.latency_ms
        ],
    )


def workers() -> Iterator[Metric]:
    """Yield what workers count for services of a team's own code, as kept last. One query."""
    found = [
        (_version(one), one.figures)
        for one in counts_by_version(since=clock.now() - KEPT_FOR)
        if one.figures is not None
    ]
    yield gauge(
        "service_busy",
        "Mean share of the slots of a version's workers at work.",
        ("service", "version", "side"),
        [(labels, figures.busy) for labels, figures in found],
    )
    by_route = (*LABELS, "route")
    for name, text, of in (
        ("service_route_requests", "Requests by route.", "requests"),
        ("service_route_errors", "Those answered 500 to 599.", "errors"),
    ):
        yield counter(
            name,
            text,
            by_route,
            [
                ((*labels, figures.epoch, route), float(getattr(count, of)))
                for labels, figures in found
                for route, count in figures.routes.items()
            ],
        )
    by_method = (*LABELS, "method")
    for name, text, of in (
        ("service_model_calls", "Calls of a method of a model.", "calls"),
        ("service_model_queue_seconds", "How long they waited for their batch.", "queue_seconds"),
        ("service_model_work_seconds", "How long their batches took.", "seconds"),
    ):
        yield counter(
            name,
            text,
            by_method,
            [
                ((*labels, figures.epoch, method), float(getattr(count, of)))
                for labels, figures in found
                for method, count in figures.methods.items()
            ],
        )


def speeds() -> Iterator[Metric]:
    yield gauge(
        "service_slowdown_ratio",
        "Latency p95 of the last ten minutes over that of the day before; missing below 100 answers of each.",
        ("service",),
        [((one.service,), one.times_slower) for one in service_speeds(clock.now())],
    )


def _version(one: VersionCounts) -> tuple[str, str, str]:
    return one.service, one.version, one.side


def _labels(one: VersionCounts) -> tuple[str, ...]:
    return one.service, one.version, one.side, one.counts.epoch
