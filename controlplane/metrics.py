"""`/metrics`, for Prometheus: what docs/API.md, "Measures", names.

The state of things is read anew for each request, so it is the same whichever web process answers. Requests
are counted in the process that answers them: one runs per port, and each is scraped by its own address.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from common.declared import manifests
from common.health import PartHealth
from common.metrics import gauge
from common.middleware import GetResponse, Told, around
from controlplane.health import parts_health
from controlplane.process_metrics import disks, process, queues
from controlplane.scraping import door

logger = logging.getLogger(__name__)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

# A second series for each one, of when it was first counted: nothing that is asked here.
disable_created_metrics()  # type: ignore[no-untyped-call]

requests = Histogram(
    "slipway_http_request_duration_seconds",
    "Until the answer began, by method, view and status.",
    ("method", "view", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=None,
)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer in the format that the client asks for: Prometheus's text, or OpenMetrics."""
    if (refused := door.refusal(request)) is not None:
        return HttpResponse(
            refused.text, status=refused.status, content_type="text/plain", headers=refused.headers
        )
    body, content_type = exposed(StateOfThings(), requests, accepts=request.headers.get("Accept", ""))
    return HttpResponse(body, content_type=content_type)


def exposed(*collectors: Collector, accepts: str) -> tuple[bytes, str]:
    """Return what they and this process tell, in the format that the client asks for, and its name."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    encoder, content_type = choose_encoder(accepts)
    return encoder(registry), content_type


def parts_up(parts: Mapping[str, PartHealth]) -> Metric:
    return gauge(
        "part_up",
        "1 when the part does its work, as /readyz knows it.",
        ("part",),
        [((name,), float(part.ok)) for name, part in parts.items()],
    )


class StateOfThings(Collector):
    """Metrics of what the rows, the heartbeats and the parts say at this moment."""

    def describe(self) -> list[Metric]:
        """Nothing beforehand: to register must not ask a thing."""
        return []

    def collect(self) -> Iterator[Metric]:
        parts = parts_health()
        yield parts_up(parts)
        yield from disks()
        yield from process()
        yield from queues()
        if "database" in parts and not parts["database"].ok:
            return
        try:
            yield from [metric for one in manifests() for read in one.metrics for metric in read()]
        except DatabaseError as error:
            # A scrape that fails would hide which part is down.
            logger.warning("The state of things cannot be read: %s", error)


@sync_and_async_middleware
def request_metrics_middleware(get_response: GetResponse) -> GetResponse:
    """Counts and times every request; a stream until its head. Heartbeats take a shorter way, uncounted."""
    return around(get_response, _timed)


@contextmanager
def _timed(request: HttpRequest) -> Iterator[Told]:
    begun = time.perf_counter()
    yield lambda response: _observe(request, response, time.perf_counter() - begun)


def _observe(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    # Only names of our own: what a stranger may make up would grow without bound.
    method = request.method if request.method in METHODS else "other"
    view = request.resolver_match.view_name if request.resolver_match else "none"
    requests.labels(method, view, str(response.status_code)).observe(seconds)
