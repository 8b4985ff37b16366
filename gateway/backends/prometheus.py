"""What the workers have counted themselves, as a cluster's Prometheus has scraped it.

For clusters whose workers cannot be reached from here. https://prometheus.io/docs/prometheus/latest/querying/api/
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import time
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2

from common.outbound import own_machine
from common.outbound.client import in_words, whole_body
from common.outbound.faults import Forbidden, Misbehaves, Unreachable
from common.outbound.transport import Deadline, Pinned
from gateway.backends.worker_counters import Reading, labels_text, summed
from gateway.errors import GatewayUnreachable, InvalidGateway
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
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """Under `prometheus` in the row's settings."""

    url: str
    """Up to what comes before `/api/v1/query`."""
    deployment_label: str = "slipway_dev_deployment"
    """The label of a series that names the deployment: the pod's label `slipway.dev/deployment`."""
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


Worker = frozenset[tuple[str, str]]
"""The labels that tell it from others."""


class PrometheusCounters:
    """A `TrafficMetrics`. Of each target the sum over its workers that were scraped lately.

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
        self._token = token
        self._clock = clock
        self._within_seconds = within_seconds

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
        scrapes = _scrapes(self._query(window, kind="matrix"), alive)
        if taken_after is not None and scrapes:
            oldest = min(one.at for one in scrapes)
            if oldest < taken_after.timestamp():
                raise GatewayUnreachable("Prometheus has not scraped all workers since the last look.")
        label = self._settings.deployment_label
        readings = {
            target: [one.reading for one in scrapes if dict(one.worker).get(label) == target]
            for target in targets
        }
        # That they have answered nothing would be a lie.
        if unseen := [target for target, found in readings.items() if ready[target] and not found]:
            raise GatewayUnreachable(
                f"Prometheus has scraped no worker of {', '.join(unseen)} in the last "
                f"{self._settings.stale_seconds} s: does it find them, with the label {label}?"
            )
        return {target: summed(found) for target, found in readings.items()}

    def _matchers(self, targets: Sequence[str]) -> str:
        # Names have letters, digits, and of what means something in a regular expression only dots.
        either = "|".join(name.replace(".", "[.]") for name in sorted(targets))
        fixed = [f"{name}={json.dumps(value)}" for name, value in sorted(self._settings.labels.items())]
        return ",".join([f'{self._settings.deployment_label}=~"{either}"', *fixed])

    def _query(self, query: str, *, kind: str) -> list[Any]:
        """Raises GatewayUnreachable."""
        try:
            status, body = self._ask(query)
        except (Unreachable, Misbehaves, Forbidden) as error:
            raise GatewayUnreachable(f"Prometheus: {error}") from None
        try:
            answer = json.loads(body)
            if answer["status"] != "success":
                raise GatewayUnreachable(f"Prometheus refuses: {answer.get('error', status)}.")
            if answer["data"]["resultType"] != kind:
                raise GatewayUnreachable(
                    f"Prometheus answers with a {answer['data']['resultType']}, not a {kind}."
                )
            return list(answer["data"]["result"])
        except (ValueError, KeyError, TypeError):
            raise GatewayUnreachable(
                f"{self._settings.url} answers {status}, and not as Prometheus does: is it its address?"
            ) from None

    def _ask(self, query: str) -> tuple[int, bytes]:
        form = {"query": query, "time": f"{self._clock():.3f}", "timeout": f"{self._within_seconds:g}s"}
        # Prometheus compresses for whoever lets it; the body is taken as it comes, so that its size is known.
        headers = {"Accept-Encoding": "identity"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        url = f"{self._settings.url}/api/v1/query"
        deadline = Deadline(self._within_seconds)
        client = httpx2.Client(
            transport=Pinned(own_machine.judge, deadline=deadline),
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


@dataclass(frozen=True, slots=True)
class _Scrape:
    """The last one of a worker."""

    worker: Worker
    at: float
    """Seconds since the epoch."""
    reading: Reading


def _worker(metric: Mapping[str, str]) -> Worker:
    return frozenset((name, value) for name, value in metric.items() if name not in _OWN_LABELS)


def _scrapes(matrix: Sequence[Any], alive: set[Worker]) -> list[_Scrape]:
    """Only what came with the same scrape as the start of the process: a process that has just begun lacks
    some of the numbers that the one before it had."""
    started: dict[Worker, tuple[float, float]] = {}
    for one in matrix:
        if one["metric"].get("__name__") == STARTED and _worker(one["metric"]) in alive:
            at, value = one["values"][-1]
            started[_worker(one["metric"])] = float(at), float(value)
    numbers: dict[Worker, dict[tuple[str, str], float]] = {worker: {} for worker in started}
    for one in matrix:
        worker, name = _worker(one["metric"]), one["metric"].get("__name__", "")
        if worker not in started or name == STARTED:
            continue
        at, value = one["values"][-1]
        if float(at) == started[worker][0]:
            own = {label: text for label, text in one["metric"].items() if label in _OWN_LABELS[1:]}
            numbers[worker][name, labels_text(own)] = float(value)
    return [
        _Scrape(
            worker,
            at,
            Reading(f"{sorted(worker)}@{began}", datetime.fromtimestamp(began, UTC), numbers[worker]),
        )
        for worker, (at, began) in sorted(started.items(), key=lambda one: sorted(one[0]))
    ]


def _wrong(message: str) -> InvalidGateway:
    return InvalidGateway(fields={"settings": [f"prometheus: {message}"]})
