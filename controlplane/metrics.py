"""`/metrics`, for Prometheus: what docs/API.md, "Measures", names.

The state of things is read anew for each request, so it is the same whichever web process answers. Requests
are counted in the process that answers them: one runs per port, and each is scraped by its own address.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.decorators import sync_and_async_middleware
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from clusters import selectors as clusters
from clusters.fleet import ClusterNow
from clusters.states import Alert, WorkerState
from common import audit, disk
from common.disk import DiskState
from common.reconcile.backlog import backlogs
from common.reconcile.pulses import takers
from controlplane.health import parts_health
from models_registry import selectors as registry
from releases import selectors as releases

logger = logging.getLogger(__name__)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
WORKER_STATES = (*WorkerState.values, Alert.LOST.value, Alert.STUCK.value, Alert.SATURATED.value)

# A second series for each one, of when it was first counted: nothing that is asked here.
disable_created_metrics()  # type: ignore[no-untyped-call]

requests = Histogram(
    "slipway_http_request_duration_seconds",
    "Until the answer began, by method, view and status.",
    ("method", "view", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=None,
)

Answer = HttpResponseBase | Awaitable[HttpResponseBase]


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """In the format that the client asks for: Prometheus's text, or OpenMetrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StateOfThings())
    registry.register(requests)
    ProcessCollector(registry=registry)
    encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encoder(registry), content_type=content_type)


class StateOfThings(Collector):
    """What the rows, the heartbeats and the parts say at this moment."""

    def describe(self) -> list[Metric]:
        """Nothing beforehand: to register must not ask a thing."""
        return []

    def collect(self) -> Iterator[Metric]:
        parts = parts_health()
        yield _gauge(
            "part_up",
            "1 when the part does its work, as /readyz knows it.",
            ("part",),
            [((name,), float(part.ok)) for name, part in parts.items()],
        )
        yield from _disk()
        if "database" in parts and not parts["database"].ok:
            return
        try:
            yield from [*_releases(), *_rows(), *_takers(), *_fleet(), *_store(), *_record()]
        except DatabaseError as error:
            # A scrape that fails would hide which part is down.
            logger.warning("The state of things cannot be read: %s", error)


def _disk() -> Iterator[Metric]:
    try:
        room = disk.room()
    except OSError:
        return
    yield _gauge("disk_free_bytes", "Free on the home's disk, without the reserve.", (), [((), room.free)])
    yield _gauge("disk_size_bytes", "Size of the disk of the home.", (), [((), room.total)])
    states = [((state.value,), float(room.state is state)) for state in DiskState]
    yield _gauge("disk_state", "1 for the state of the home's disk: ok, low or full.", ("state",), states)


def _releases() -> Iterator[Metric]:
    counts = releases.count_by_state()
    samples = [((state,), float(number)) for state, number in counts.items()]
    yield _gauge("releases", "Releases by state.", ("state",), samples)


def _rows() -> Iterator[Metric]:
    found = backlogs()
    for name, help_text, column in (
        ("rows_due", "Rows whose next step is due and unclaimed.", "due"),
        ("rows_overdue", "Rows that have been due for more than 10 s.", "overdue"),
        ("rows_stuck", "Rows that wait for a person.", "stuck"),
        ("rows_failing", "Rows whose step has failed for minutes and is tried further.", "failing"),
        ("oldest_due_seconds", "For how long a row has been due at most.", "oldest_seconds"),
    ):
        samples = [((kind,), float(getattr(one, column))) for kind, one in found.items()]
        yield _gauge(name, help_text, ("kind",), samples)


def _takers() -> Iterator[Metric]:
    found = takers().values()
    now = timezone.now()
    yield _gauge(
        "takers",
        "Processes by role and by whether they have taken due rows in the last seconds.",
        ("role", "state"),
        [((one.role, state), float(getattr(one, state))) for one in found for state in ("alive", "silent")],
    )
    yield _gauge(
        "taker_silent_seconds",
        "For how long the one that hangs has taken nothing; 0 when none does.",
        ("role",),
        [((one.role,), (now - one.hung_since).total_seconds() if one.hung_since else 0.0) for one in found],
    )
    hung = sum((Counter(one.hung) for one in found), Counter())
    yield _gauge(
        "lane_hung",
        "Processes in which a step waits for this outside system beyond its limit.",
        ("lane",),
        [((lane,), float(number)) for lane, number in sorted(hung.items())],
    )
    for name, help_text, column in (
        ("steps_taken", "Steps of rows, by the role of the process that took them.", "taken"),
        ("leases_run_out", "Steps that took longer than their lease, or whose process ended.", "run_out"),
        (
            "takers_lost",
            "Processes that ended without a word: killed, or replaced because they hung.",
            "lost",
        ),
    ):
        family = CounterMetricFamily(f"slipway_{name}", help_text, labels=("role",))
        for one in found:
            family.add_metric((one.role,), getattr(one, column))
        yield family


def _fleet() -> Iterator[Metric]:
    found = clusters.whole_fleet().clusters
    yield _gauge(
        "workers",
        "Workers by cluster and state; lost and stuck ones count as that.",
        ("cluster", "state"),
        [
            ((cluster.row.name, state), float(counts[state]))
            for cluster in found
            for counts in [_by_state(cluster)]
            for state in WORKER_STATES
        ],
    )
    yield _gauge(
        "cluster_busy_ratio",
        "Share of a cluster's slots at work over the last 10 s; missing while nothing is known.",
        ("cluster",),
        [((one.row.name,), one.load.busy) for one in found if one.load.busy is not None],
    )


def _by_state(cluster: ClusterNow) -> Counter[str]:
    return Counter(
        worker.alert or worker.state for deployment in cluster.deployments for worker in deployment.workers
    )


def _store() -> Iterator[Metric]:
    counts = registry.findings_by_state()
    samples = [((state,), float(number)) for state, number in counts.items()]
    yield _gauge("store_findings", "Damaged or missing files of the model store.", ("state",), samples)


def _record() -> Iterator[Metric]:
    yield CounterMetricFamily("slipway_audit_records", "Rows of the audit record.", value=audit.length())


def _gauge(
    name: str, help_text: str, labels: Sequence[str], samples: Sequence[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(f"slipway_{name}", help_text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


@sync_and_async_middleware
def request_metrics_middleware(
    get_response: Callable[[HttpRequest], Answer],
) -> Callable[[HttpRequest], Answer]:
    """Counts and times every request; a stream until its head. Heartbeats take a shorter way, uncounted."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            begun = time.perf_counter()
            response = await cast("Awaitable[HttpResponseBase]", get_response(request))
            _observe(request, response, time.perf_counter() - begun)
            return response

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        begun = time.perf_counter()
        response = cast("HttpResponseBase", get_response(request))
        _observe(request, response, time.perf_counter() - begun)
        return response

    return answer


def _observe(request: HttpRequest, response: HttpResponseBase, seconds: float) -> None:
    # Only names of our own: what a stranger may make up would grow without bound.
    method = request.method if request.method in METHODS else "other"
    view = request.resolver_match.view_name if request.resolver_match else "none"
    requests.labels(method, view, str(response.status_code)).observe(seconds)
