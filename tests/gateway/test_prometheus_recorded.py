"""What Prometheus 2.42 answered while it scraped real workers every 5 s: steady, one killed, the same started
again. `exact`: what the workers themselves said a moment later; one that is gone or has just begun, nothing.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.prometheus import PrometheusCounters, PrometheusSettings
from gateway.errors import GatewayUnreachable
from gateway.traffic import TargetCounts
from tests.gateway.prometheus_server import Prometheus, serving

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded" / "prometheus.json").read_text())
MOST_BEHIND = 15
"""Requests that a worker got between two scrapes."""


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


@pytest.fixture
def url(prometheus: Prometheus) -> Iterator[str]:
    with serving(prometheus) as address:
        yield address


def read(prometheus: Prometheus, url: str, moment: str, *, unseen: int = 0) -> dict[str, TargetCounts]:
    said = RECORDED[moment]
    prometheus.answers += [(200, json.dumps(said[kind]).encode()) for kind in ("vector", "matrix")]
    counters = PrometheusCounters(
        PrometheusSettings.read({"url": url}),
        lambda _: {"docs-r1": 1, "docs-r2": 2, "docs-r3": unseen},
        clock=lambda: float(said["at"]),
    )
    return dict(counters.counts("docs"))


def exact(moment: str, event: str, *workers: str) -> int:
    key = f'slipway_worker_traffic_total{{chosen_by="gateway",event="{event}"}}'
    said = RECORDED[moment]["exact"]
    return sum(said[worker].get(key, 0) for worker in workers)


def test_what_it_has_scraped_is_what_the_workers_count_a_scrape_ago(prometheus: Prometheus, url: str) -> None:
    found = read(prometheus, url, "steady")
    for target, workers in (("docs-r1", ("docs-r1-0",)), ("docs-r2", ("docs-r2-0", "docs-r2-1"))):
        counts = found[target]
        assert 0 <= exact("steady", "routed", *workers) - counts.routed <= MOST_BEHIND * len(workers)
        assert counts.latency_ms[-1][1] == counts.requests > 0
    # All as of the moment at which docs-r2-0 was scraped: the others lie between two scrapes.
    assert (found["docs-r2"].routed, found["docs-r2"].requests) == (1648 + 1682, 1648 + 1682)
    assert dict(found["docs-r2"].latency_ms)[100.0] == 291 + 306
    # Who goes away before an answer is neither answered nor in flight.
    assert (found["docs-r1"].requests, found["docs-r1"].abandoned) == (3866 - 119, 119)


def test_a_killed_worker_counts_no_more_and_begins_anew(prometheus: Prometheus, url: str) -> None:
    before = read(prometheus, url, "steady")["docs-r2"]
    # Its last numbers lie in the range that is asked for, and are stale.
    without = read(prometheus, url, "killed")["docs-r2"]
    assert (without.routed, without.requests) == (1685, 1685)
    again = read(prometheus, url, "restarted")["docs-r2"]
    assert (again.routed, again.requests) == (1735, 1727)
    assert len({before.epoch, without.epoch, again.epoch}) == 3
    assert without.since == again.since


def test_while_it_finds_no_worker_of_the_candidate_nothing_is_said(prometheus: Prometheus, url: str) -> None:
    with pytest.raises(GatewayUnreachable, match="scraped no worker of docs-r3"):
        read(prometheus, url, "steady", unseen=1)
