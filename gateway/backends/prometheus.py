"""Counts of the workers, as a cluster's Prometheus has scraped them.

For clusters whose workers cannot be reached from here. https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from time import time
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from common.outbound import own_machine
from common.outbound.client import in_words, whole_body
from common.outbound.faults import Forbidden, HostUnreachable, Misbehaves
from common.outbound.transport import PinnedTransport, RequestDeadline
from gateway.backends.worker_counters import WorkerReading, labels_text, summed
from gateway.errors import GatewayUnreachable, InvalidGateway, QueryRefused
from gateway.latency import Histogram
from gateway.scraped_series import ScrapedSeries
from gateway.traffic import TargetCounts

TOKEN = "prometheus_token"  # noqa: S105 - the name of a secret
WITHIN_SECONDS = 4.0
MOST_BYTES = 32 * 1024 * 1024
STARTED = "process_start_time_seconds"
COUNTED = (
    "slipway_worker_traffic_total",
    "slipway_worker_answer_seconds_bucket",
    "slipway_worker_answer_first_token_seconds_bucket",
)
_OWN_LABELS = ("__name__", "le", "chosen_by", "event")
"""Those that a worker writes itself; all others say which worker it is."""
_FIGURES = (
    *("routed", "requests", "errors", "broken", "abandoned"),
    *("forced_requests", "forced_errors", "in_flight"),
)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """Settings under `prometheus` of the row's."""

    url: str
    """Up to what comes before `/api/v1/query`."""
    deployment_label: str = "slipway_io_deployment"
    """The label of a series that names the deployment: the pod's label `slipway.io/deployment`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Others that must match: of the cluster, where one Prometheus knows several."""
    stale_seconds: int = 60
    """A worker that was not scraped for so long is not there: four times the scrape interval, or so."""

    @classmethod
    def read(cls, given: Any) -> Self:
        """Raises InvalidGateway."""
        if not isinstance(given, Mapping) or not isinstance(given.get("url"), str):
            raise _wrong("give an object with the url of Prometheus.")
        known = cls.__dataclass_fields__
        if unknown := sorted(given.keys() - known.keys()):
            raise _wrong(f"no such setting {unknown[0]}. There are {', '.join(sorted(known))}.")
        made = cls(**{**given, "url": given["url"].rstrip("/")})
        if not re.match(r"https?://[^/?#@]+[^?#]*$", made.url):
            raise _wrong("url: as in http://prometheus.monitoring:9090.")
        try:
            own_machine.check_host(urlsplit(made.url).hostname or "")
        except (Forbidden, ValueError) as error:
            raise _wrong(f"url: {error}") from None
        labels = made.labels
        if not isinstance(labels, Mapping) or not all(isinstance(one, str) for one in labels.values()):
            raise _wrong('labels: an object of labels and values: {"cluster": "a"}.')
        for name in (made.deployment_label, *labels):
            if not isinstance(name, str) or not _LABEL.fullmatch(name):
                raise _wrong(f"{name!r} cannot be a label in Prometheus.")
        seconds = made.stale_seconds
        if not isinstance(seconds, int) or isinstance(seconds, bool) or not 5 <= seconds <= 600:
            raise _wrong("stale_seconds: a whole number from 5 to 600.")
        return made


class PrometheusQueries:
    """Asks one Prometheus."""

    def __init__(
        self, settings: PrometheusSettings, *, token: str = "", within_seconds: float = WITHIN_SECONDS
    ) -> None:
        self._settings = settings
        self._token = token
        self._within_seconds = within_seconds

    def scraped(self, selector: str, *, seconds: int, until: float) -> list[ScrapedSeries]:
        """Return what was scraped in so many seconds. `selector`: PromQL's, without braces. Raises
        GatewayUnreachable."""
        fixed = fixed_labels(self._settings)
        found = self.ask(f"{{{','.join([selector, *fixed])}}}[{seconds}s]", kind="matrix", at=until)
        return [
            ScrapedSeries(one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found
        ]

    def ask(self, query: str, *, kind: str, at: float) -> list[Any]:
        """Raises GatewayUnreachable."""
        try:
            status, body = self._answer(query, at)
        except (HostUnreachable, Misbehaves, Forbidden) as error:
            raise GatewayUnreachable(f"Prometheus: {error}") from None
        try:
            answer = json.loads(body)
            if answer["status"] != "success":
                raise QueryRefused(f"Prometheus refuses: {answer.get('error', status)}.")
            if answer["data"]["resultType"] != kind:
                raise GatewayUnreachable(
                    f"Prometheus answers with a {answer['data']['resultType']}, not a {kind}."
                )
            return list(answer["data"]["result"])
        except (ValueError, KeyError, TypeError):
            raise GatewayUnreachable(
                f"{self._settings.url} answers {status}, and not as Prometheus does: is it its address?"
            ) from None

    def _answer(self, query: str, at: float) -> tuple[int, bytes]:
        form = {"query": query, "time": f"{at:.3f}", "timeout": f"{self._within_seconds:g}s"}
        # Prometheus compresses for whoever lets it; the body is taken as it comes, so that its size is known.
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = f"{self._settings.url}/api/v1/query"
        deadline = RequestDeadline(self._within_seconds)
        client = httpx2.Client(
            transport=PinnedTransport(own_machine.judge, deadline=deadline),
            timeout=self._within_seconds,
            trust_env=False,
        )
        try:
            with in_words(url), client:
                request = client.build_request("POST", url, data=form, headers=headers)
                response = client.send(request, stream=True)
                body = whole_body(response, limit_bytes=MOST_BYTES, limit_seconds=self._within_seconds)
                return response.status_code, body
        finally:
            deadline.close()


def fixed_labels(settings: PrometheusSettings) -> list[str]:
    """Return the matchers that every query has."""
    return [f"{name}={json.dumps(value)}" for name, value in sorted(settings.labels.items())]


Worker = frozenset[tuple[str, str]]
"""The labels that tell it from others."""


class PrometheusCounters:
    """A `TrafficMetrics`. Of each target the sum over its workers that were scraped lately, all as of the
    moment at which the last of them had been.

    Which processes those are is the `epoch`, so that nothing is ever compared across a start.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        ready_workers_of: Callable[[str], Mapping[str, int]],
        *,
        token: str = "",
        clock: Callable[[], float] = time,
        within_seconds: float = WITHIN_SECONDS,
    ) -> None:
        """`ready_workers_of` a route: their number in each of its deployments; raises UnknownRoute."""
        self._settings = settings
        self._ready_workers_of = ready_workers_of
        self._clock = clock
        self._queries = PrometheusQueries(settings, token=token, within_seconds=within_seconds)

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        ready = self._ready_workers_of(route)
        targets = list(ready)
        if not targets:
            return {}
        selected = self._matchers(targets)
        alive = {_worker(one["metric"]) for one in self._query(f"{STARTED}{{{selected}}}", kind="vector")}
        if not alive:
            raise GatewayUnreachable(
                f"Prometheus knows no worker of {route}: it is asked for {STARTED}{{{selected}}}."
            )
        names = "|".join((STARTED, *COUNTED))
        window = f'{{__name__=~"{names}",{selected}}}[{self._settings.stale_seconds}s]'
        seen = _seen(self._query(window, kind="matrix"), alive)
        if taken_after is not None and seen and seen[0].at < taken_after.timestamp():
            raise GatewayUnreachable("Prometheus has not scraped all workers since the last look.")
        label = self._settings.deployment_label
        readings = {
            target: [one for one in seen if dict(one.worker).get(label) == target] for target in targets
        }
        # That they have answered nothing would be a lie.
        if unseen := [target for target, found in readings.items() if ready[target] and not found]:
            raise GatewayUnreachable(
                f"Prometheus has scraped no worker of {', '.join(unseen)} in the last "
                f"{self._settings.stale_seconds} s: does it find them, with the label {label}?"
            )
        return {target: _together(found) for target, found in readings.items()}

    def _matchers(self, targets: Sequence[str]) -> str:
        # Names have letters, digits, and of what means something in a regular expression only dots.
        either = "|".join(name.replace(".", "[.]") for name in sorted(targets))
        own = f'{self._settings.deployment_label}=~"{either}"'
        return ",".join([own, *fixed_labels(self._settings)])

    def _query(self, query: str, *, kind: str) -> list[Any]:
        """Raises GatewayUnreachable."""
        return self._queries.ask(query, kind=kind, at=self._clock())


@dataclass(frozen=True, slots=True)
class _ScrapedWorker:
    """A worker between two scrapes."""

    worker: Worker
    at: float
    """The moment of all of them, seconds since the epoch: when the one that was scraped first was. Else one
    version would be ahead of another, by as many requests as come between two scrapes."""
    before: WorkerReading
    after: WorkerReading
    share: float
    """How far the moment lies between them, 0..1."""


def _worker(metric: Mapping[str, str]) -> Worker:
    return frozenset((name, value) for name, value in metric.items() if name not in _OWN_LABELS)


def _seen(matrix: Sequence[Any], alive: set[Worker]) -> list[_ScrapedWorker]:
    """All at one moment. Numbers count with the start of the process that the same scrape brought: one that
    has just begun lacks some of those that the one before it had."""
    started: dict[Worker, dict[float, float]] = {}
    for one in matrix:
        if one["metric"].get("__name__") == STARTED and (worker := _worker(one["metric"])) in alive:
            samples = {float(at): float(value) for at, value in one["values"]}
            last = samples[max(samples)]
            started[worker] = {at: began for at, began in samples.items() if began == last}
    numbers: dict[tuple[Worker, float], dict[tuple[str, str], float]] = {
        (worker, at): {} for worker, scrapes in started.items() for at in scrapes
    }
    for one in matrix:
        worker, name = _worker(one["metric"]), one["metric"].get("__name__", "")
        own = labels_text({key: text for key, text in one["metric"].items() if key in _OWN_LABELS[1:]})
        for at, value in one["values"] if name != STARTED else ():
            if (worker, float(at)) in numbers:
                numbers[worker, float(at)][name, own] = float(value)
    moment = min((max(scrapes) for scrapes in started.values()), default=0.0)

    def reading(worker: Worker, at: float) -> WorkerReading:
        began = started[worker][at]
        return WorkerReading(
            f"{sorted(worker)}@{began}", datetime.fromtimestamp(began, UTC), numbers[worker, at]
        )

    found = []
    for worker, scrapes in sorted(started.items(), key=lambda one: sorted(one[0])):
        after = min(at for at in scrapes if at >= moment)
        before = max((at for at in scrapes if at <= moment), default=after)
        share = (moment - before) / (after - before) if after > before else 1.0
        found.append(_ScrapedWorker(worker, moment, reading(worker, before), reading(worker, after), share))
    return found


def _together(workers: Sequence[_ScrapedWorker]) -> TargetCounts:
    """Sum the workers' counts at their moment, as if requests came evenly between two scrapes."""
    parts = [(summed([one.before]), summed([one.after]), one.share) for one in workers]

    def at_moment(read: Callable[[TargetCounts], int]) -> int:
        return sum(int(read(old) + share * (read(new) - read(old))) for old, new, share in parts)

    def histogram(read: Callable[[TargetCounts], Histogram]) -> Histogram:
        whole = read(summed([]))
        return tuple(
            (bound, at_moment(lambda counts, number=number: read(counts)[number][1]))  # type: ignore[misc]
            for number, (bound, _) in enumerate(whole)
        )

    figures: dict[str, Any] = {name: at_moment(attrgetter(name)) for name in _FIGURES}
    return replace(
        summed(one.after for one in workers),
        **figures,
        latency_ms=histogram(attrgetter("latency_ms")),
        first_byte_ms=histogram(attrgetter("first_byte_ms")),
    )


def _wrong(message: str) -> InvalidGateway:
    return InvalidGateway(fields={"settings": [f"prometheus: {message}"]})
