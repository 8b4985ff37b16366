"""Counts of the Envoys of a cluster's Gateway, read from `/stats/prometheus` of each.

They count by upstream cluster, whatever rule of a route led there: who chose a side cannot be told from who
was sent there by weight. So no route may let clients choose while Envoys count.
https://www.envoyproxy.io/docs/envoy/latest/configuration/upstream/cluster_manager/cluster_stats
"""

import math
import re
import socket
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import urlsplit

from common.outbound import own_machine
from common.outbound.faults import Forbidden
from gateway.errors import GatewayUnreachable, InvalidGateway
from gateway.latency import BOUNDS_MS, Histogram
from gateway.traffic import TargetCounts

WITHIN_SECONDS = 3.0
MOST_BYTES = 32 * 1024 * 1024
SIDE_BY_SIDE = 8
SAME_START = timedelta(seconds=15)
"""Envoy tells whole seconds of uptime, brought up to date every five: nearer ones are one start."""
_PATH = r"/stats/prometheus?filter=^(cluster\..*upstream_rq_(total|active|xx|[1-5]xx|time)|server\.uptime)"
_LINE = re.compile(r"envoy_(\w+)(?:\{(.*)\})? ([0-9.eE+-]+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_EMPTY: Histogram = (*((bound, 0) for bound in BOUNDS_MS), (math.inf, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoySettings:
    """Settings under `envoy` of the row's."""

    urls: Sequence[str]
    """Of each Envoy; a host name that leads to several addresses (a headless Service) stands for all."""

    @classmethod
    def read(cls, given: Any) -> Self:
        """Raises InvalidGateway."""
        urls = given.get("urls") if isinstance(given, Mapping) and given.keys() == {"urls"} else None
        if not isinstance(urls, list) or not urls:
            raise _wrong(
                'give an object with the urls of the Envoys: {"urls": ["http://envoy.infra:19001"]}.'
            )
        for url in urls:
            if not isinstance(url, str) or not re.fullmatch(r"http://[^/?#@\s]+:[0-9]{1,5}/?", url):
                raise _wrong(f"{url!r}: as in http://envoy-stats.infra:19001, without a path.")
            try:
                own_machine.check_host(urlsplit(url).hostname or "")
            except (Forbidden, ValueError) as error:
                raise _wrong(f"{url}: {error}") from None
        return cls(urls=tuple(urls))


@dataclass(frozen=True, slots=True)
class UpstreamCounts:
    """Counts of one Envoy, by upstream cluster."""

    instance: str
    uptime_seconds: float
    numbers: Mapping[str, Counter[str]]
    """Under `total`, `active`, and `1` to `5`, the classes of answers."""
    times: Mapping[str, Mapping[float, int]]
    """Milliseconds, cumulative by upper bound."""


class EnvoyStatistics:
    """A `TrafficMetrics`. Of each target the sum over all Envoys that were named: one that does not answer is
    missing in every share, so that without it nothing is told."""

    def __init__(
        self,
        settings: EnvoySettings,
        targets_of: Callable[[str], Iterable[str]],
        *,
        start_of: Callable[[str, datetime], datetime],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`targets_of` a route: names of its deployments; raises UnknownRoute, and GatewayUnreachable where
        clients may choose. `start_of` an instance, as it seems now: as it was noted, if that is the same."""
        self._settings = settings
        self._targets_of = targets_of
        self._start_of = start_of
        self._clock = clock

    def counts(self, route: str, *, taken_after: datetime | None = None) -> Mapping[str, TargetCounts]:
        targets = list(self._targets_of(route))
        places = [place for url in self._settings.urls for place in _places(url)]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            said = list(pool.map(_ask, places))
        now = self._clock()
        starts = [self._start_of(one.instance, now - timedelta(seconds=one.uptime_seconds)) for one in said]
        text = " ".join(
            sorted(f"{one.instance}@{at.isoformat()}" for one, at in zip(said, starts, strict=True))
        )
        epoch, since = sha256(text.encode()).hexdigest()[:16], max(starts)
        known = {name for one in said for name in one.numbers}
        if targets and not any(_of(target, known) for target in targets):
            raise GatewayUnreachable(
                f"The Envoys count nothing of {', '.join(targets)}: of their clusters none has the name of "
                "such a Service in its own. Have the workers count instead."
            )
        return {target: _counts(said, _of(target, known), epoch=epoch, since=since) for target in targets}


def same_start(noted: str | None, seems: datetime) -> datetime:
    """The start that was noted, unless the Envoy has started again since."""
    before = datetime.fromisoformat(noted) if noted else None
    return before if before is not None and abs(seems - before) <= SAME_START else seems


def parsed(instance: str, text: str) -> UpstreamCounts:
    """Raises GatewayUnreachable where it is not what an Envoy says."""
    numbers: dict[str, Counter[str]] = {}
    times: dict[str, dict[float, int]] = {}
    uptime = None
    for line in text.splitlines():
        if (found := _LINE.match(line)) is None:
            continue
        name, labels, value = found[1], dict(_LABEL.findall(found[2] or "")), float(found[3])
        cluster = labels.get("envoy_cluster_name", "")
        if name == "server_uptime":
            uptime = value
        elif name in ("cluster_upstream_rq_total", "cluster_upstream_rq_active"):
            numbers.setdefault(cluster, Counter())[name.removeprefix("cluster_upstream_rq_")] += int(value)
        elif name == "cluster_upstream_rq_xx":
            numbers.setdefault(cluster, Counter())[labels.get("envoy_response_code_class", "")] += int(value)
        elif name == "cluster_upstream_rq_time_bucket":
            times.setdefault(cluster, {})[float(labels["le"].replace("+Inf", "inf"))] = int(value)
    if uptime is None:
        raise GatewayUnreachable(
            f"{instance} answers, and not as Envoy's /stats/prometheus: is it its address?"
        )
    return UpstreamCounts(instance, uptime, numbers, times)


def _counts(
    said: Sequence[UpstreamCounts], names: Sequence[str], *, epoch: str, since: datetime
) -> TargetCounts:
    total: Counter[str] = Counter()
    for one in said:
        for name in names:
            total += one.numbers.get(name, Counter())
    requests = sum(total[kind] for kind in "2345")
    return TargetCounts(
        epoch=epoch,
        since=since,
        routed=total["total"],
        requests=requests,
        errors=total["5"],
        broken=0,
        abandoned=0,
        forced_requests=0,
        forced_errors=0,
        latency_ms=_histogram([one.times[name] for one in said for name in names if name in one.times]),
        first_byte_ms=_EMPTY,
        in_flight=max(total["active"], 0),
    )


def _histogram(times: Sequence[Mapping[float, int]]) -> Histogram:
    """Return a histogram with our bounds. Answers between two of Envoy's bounds count as evenly spread, which
    keeps every figure rising.
    """
    if not times:
        return _EMPTY
    found = [0] * (len(BOUNDS_MS) + 1)
    for one in times:
        bounds = sorted(one)
        for index, bound in enumerate(BOUNDS_MS):
            found[index] += _at_most(one, bounds, bound)
        found[-1] += one[bounds[-1]]
    return tuple(zip((*BOUNDS_MS, math.inf), found, strict=True))


def _at_most(times: Mapping[float, int], bounds: Sequence[float], bound: float) -> int:
    right = bisect_left(bounds, bound)
    if right == len(bounds):
        return times[bounds[-1]]
    low = bounds[right - 1] if right else 0.0
    below = times[bounds[right - 1]] if right else 0
    high, above = bounds[right], times[bounds[right]]
    if math.isinf(high):
        return below
    return math.floor(below + (above - below) * (bound - low) / (high - low))


def _of(target: str, known: Iterable[str]) -> list[str]:
    """Upstream clusters whose name has the Service's as a whole word: `outbound|8000||chat-r1.ml.svc...`,
    `ml/chat-r1/8000/...`, `kube_ml_chat-r1_8000`."""
    word = re.compile(rf"(?<![A-Za-z0-9-]){re.escape(target)}(?![A-Za-z0-9-])")
    return sorted(name for name in known if word.search(name))


def _places(url: str) -> list[tuple[str, str, int]]:
    """Name, address and port of each Envoy. Raises GatewayUnreachable."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    try:
        found = sorted({str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
        own_machine.judge(host, port, [ip_address(one) for one in found])
    except (OSError, Forbidden) as error:
        raise GatewayUnreachable(f"Envoy at {url}: {error}") from None
    return [(host, address, port) for address in found]


def _ask(place: tuple[str, str, int]) -> UpstreamCounts:
    host, address, port = place
    connection = HTTPConnection(address, port, timeout=WITHIN_SECONDS)
    try:
        connection.request("GET", _PATH, headers={"Host": f"{host}:{port}"})
        answer = connection.getresponse()
        text = answer.read(MOST_BYTES).decode(errors="replace")
    except (OSError, HTTPException) as error:
        raise GatewayUnreachable(f"The Envoy {address}:{port} does not answer: {error}") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise GatewayUnreachable(f"The Envoy {address}:{port} answers {answer.status}.")
    return parsed(f"{address}:{port}", text)


def _wrong(message: str) -> InvalidGateway:
    return InvalidGateway(fields={"settings": [f"envoy: {message}"]})
