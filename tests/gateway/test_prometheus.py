"""Counts of workers, read from the Prometheus of their cluster."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clusters.selectors import ready_workers
from clusters.states import WorkerState
from gateway.backends.prometheus import PrometheusCounters, PrometheusSettings
from gateway.errors import GatewayUnreachable, InvalidGateway, UnknownRoute
from tests.accounts.rights_matrix import Scene
from tests.gateway.prometheus_server import Prometheus, serving


@pytest.fixture
def prometheus() -> Prometheus:
    return Prometheus()


@pytest.fixture
def url(prometheus: Prometheus) -> Iterator[str]:
    with serving(prometheus) as address:
        yield address


def counters(
    prometheus: Prometheus, url: str, *, token: str = "", candidates: int = 0, **settings: Any
) -> PrometheusCounters:
    def ready_workers_of(route: str) -> dict[str, int]:
        if route != "chat":
            raise UnknownRoute(route)
        return {"chat-r1": 1, "chat-r2": candidates}

    read = PrometheusSettings.read({"url": f"{url}/", **settings})
    return PrometheusCounters(read, ready_workers_of, token=token, clock=lambda: prometheus.now)


def scrape(
    prometheus: Prometheus, deployment: str, pod: str, *, started: float = 1.9e9, **events: int
) -> None:
    """A worker of ours, `events` as chosen by the gateway; none: it does not run."""
    lines = [f"process_start_time_seconds {started}"] + [
        f'slipway_worker_traffic_total{{chosen_by="gateway",event="{name}"}} {count}'
        for name, count in events.items()
    ]
    text = "\n".join(lines) + "\n" if events else ""
    prometheus.scrape(text, instance=f"{pod}:8000", pod=pod, slipway_io_deployment=deployment)


def test_a_target_is_the_sum_of_its_workers(prometheus: Prometheus, url: str) -> None:
    scrape(prometheus, "chat-r1", "a", routed=30, ended=29, errors=2, abandoned=1)
    scrape(prometheus, "chat-r1", "b", routed=10, ended=10)
    scrape(prometheus, "chat-r2", "c", routed=4, ended=4, errors=4, broken=1)
    found = counters(prometheus, url).counts("chat")
    stable, canary = found["chat-r1"], found["chat-r2"]
    assert (stable.routed, stable.requests, stable.errors, stable.abandoned, stable.in_flight) == (
        40,
        38,
        2,
        1,
        1,
    )
    assert (canary.routed, canary.requests, canary.errors, canary.broken) == (4, 4, 4, 1)
    assert stable.since == datetime.fromtimestamp(1.9e9, UTC)


def test_a_restart_is_another_epoch_and_mixes_no_numbers_of_two_processes(
    prometheus: Prometheus, url: str
) -> None:
    scrape(prometheus, "chat-r1", "a", routed=30, ended=30, errors=9)
    before = counters(prometheus, url).counts("chat")["chat-r1"]
    prometheus.now += 15
    # It has had no error yet: the number of the process before it is still in the range.
    scrape(prometheus, "chat-r1", "a", started=1.9e9 + 10, routed=2, ended=2)
    after = counters(prometheus, url).counts("chat")["chat-r1"]
    assert after.epoch != before.epoch
    assert (after.requests, after.errors) == (2, 0)


def test_a_worker_that_is_gone_is_no_longer_counted(prometheus: Prometheus, url: str) -> None:
    scrape(prometheus, "chat-r1", "a", routed=5, ended=5)
    scrape(prometheus, "chat-r1", "b", routed=7, ended=7)
    before = counters(prometheus, url).counts("chat")["chat-r1"]
    prometheus.now += 15
    scrape(prometheus, "chat-r1", "a", routed=6, ended=6)
    scrape(prometheus, "chat-r1", "b")
    after = counters(prometheus, url).counts("chat")["chat-r1"]
    assert after.requests == 6
    assert after.epoch != before.epoch


def test_what_was_not_scraped_lately_is_not_known(prometheus: Prometheus, url: str) -> None:
    scrape(prometheus, "chat-r1", "a", routed=5, ended=5)
    prometheus.now += 90
    assert counters(prometheus, url, stale_seconds=120).counts("chat")["chat-r1"].requests == 5
    with pytest.raises(GatewayUnreachable, match="scraped no worker of chat-r1 in the last 60 s"):
        counters(prometheus, url).counts("chat")
    prometheus.now += 300
    with pytest.raises(GatewayUnreachable, match="Prometheus knows no worker of chat"):
        counters(prometheus, url).counts("chat")


def test_a_candidate_that_prometheus_does_not_find_has_not_answered_nothing(
    prometheus: Prometheus, url: str
) -> None:
    scrape(prometheus, "chat-r1", "a", routed=5, ended=5)
    assert counters(prometheus, url).counts("chat")["chat-r2"].routed == 0
    with pytest.raises(GatewayUnreachable, match=r"no worker of chat-r2 .* with the label slipway_io_dep"):
        counters(prometheus, url, candidates=2).counts("chat")


def test_a_reading_from_before_the_moment_asked_for_is_none(prometheus: Prometheus, url: str) -> None:
    scrape(prometheus, "chat-r1", "a", routed=5, ended=5)
    moment = datetime.fromtimestamp(prometheus.now + 5, UTC)
    prometheus.now += 10
    with pytest.raises(GatewayUnreachable, match="not scraped all workers since the last look"):
        counters(prometheus, url).counts("chat", taken_after=moment)
    scrape(prometheus, "chat-r1", "a", routed=6, ended=6)
    assert counters(prometheus, url).counts("chat", taken_after=moment)["chat-r1"].requests == 6


def test_versions_are_compared_at_one_moment_though_scraped_at_different_ones(
    prometheus: Prometheus, url: str
) -> None:
    began = prometheus.now
    splits = []
    for second in range(1, 90):
        prometheus.now = began + second
        # Ten requests a second each, from the first on.
        if second % 15 == 1:
            scrape(prometheus, "chat-r1", "a", started=began, routed=10 * second, ended=10 * second)
        if second % 15 == 14:
            scrape(prometheus, "chat-r2", "b", started=began, routed=10 * second, ended=10 * second)
        if second >= 16:
            found = counters(prometheus, url, candidates=1).counts("chat")
            splits.append((found["chat-r1"].routed, found["chat-r2"].routed))
    assert len(set(splits)) >= 8
    for before, after in pairwise(splits):
        stable, candidate = after[0] - before[0], after[1] - before[1]
        assert stable >= 0 <= candidate
        assert abs(stable - candidate) <= 2


def test_of_several_clusters_only_the_one_that_is_named_counts(prometheus: Prometheus, url: str) -> None:
    for cluster, routed in (("east", 3), ("west", 8)):
        counted = f'slipway_worker_traffic_total{{chosen_by="gateway",event="routed"}} {routed}'
        text = f"process_start_time_seconds 1\n{counted}\n"
        prometheus.scrape(text, instance="a", deploy="chat-r1", cluster=cluster)
    only = counters(prometheus, url, deployment_label="deploy", labels={"cluster": "east"})
    assert only.counts("chat")["chat-r1"].routed == 3


def test_a_token_is_sent_and_its_absence_told(prometheus: Prometheus, url: str) -> None:
    prometheus.token = "sesame"
    scrape(prometheus, "chat-r1", "a", routed=1, ended=1)
    with pytest.raises(GatewayUnreachable, match="answers 401, and not as Prometheus does"):
        counters(prometheus, url).counts("chat")
    assert counters(prometheus, url, token="sesame").counts("chat")["chat-r1"].routed == 1


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (
            400,
            b'{"status":"error","errorType":"bad_data","error":"invalid parameter"}',
            "refuses: invalid param",
        ),
        (
            503,
            b'{"status":"error","errorType":"timeout","error":"query timed out"}',
            "refuses: query timed out",
        ),
        (
            200,
            b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}',
            "a scalar, not a vector",
        ),
        (200, b"<html>Grafana</html>", "not as Prometheus does"),
        (200, b"[]", "not as Prometheus does"),
    ],
)
def test_what_is_no_answer_is_told_and_no_zero(
    prometheus: Prometheus, url: str, status: int, body: bytes, why: str
) -> None:
    prometheus.answers.append((status, body))
    with pytest.raises(GatewayUnreachable, match=why):
        counters(prometheus, url).counts("chat")


def test_one_that_does_not_answer_is_told(prometheus: Prometheus) -> None:
    with pytest.raises(GatewayUnreachable, match="cannot be reached"):
        counters(prometheus, "http://127.0.0.1:9").counts("chat")
    with pytest.raises(UnknownRoute):
        counters(prometheus, "http://127.0.0.1:9").counts("nobody")


@pytest.mark.parametrize("host", ["127.0.0.1:9090", "localhost", "[::1]", "169.254.169.254", "168.63.129.16"])
def test_what_only_this_machine_reaches_is_no_prometheus(settings: Any, host: str) -> None:
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ()
    with pytest.raises(InvalidGateway, match="SLIPWAY_CLUSTER_ALLOWED_NETWORKS"):
        PrometheusSettings.read({"url": f"http://{host}"})
    PrometheusSettings.read({"url": "http://10.0.0.7:9090"})


def test_a_name_that_leads_there_is_never_asked(settings: Any, prometheus: Prometheus, url: str) -> None:
    scrape(prometheus, "chat-r1", "a", routed=5, ended=5)
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ()
    # A number that a resolver takes for 127.0.0.1.
    hidden = url.replace("127.0.0.1", "2130706433")
    with pytest.raises(GatewayUnreachable, match=r"2130706433 \(127.0.0.1\) is an address that only"):
        counters(prometheus, hidden).counts("chat")
    assert not prometheus.asked


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (None, "with the url of Prometheus"),
        ({"url": "prometheus:9090"}, "as in http://"),
        ({"url": "http://[::1"}, "Invalid IPv6"),
        ({"url": "http://p", "interval": 3}, "no such setting interval"),
        ({"url": "http://p", "deployment_label": "a-b"}, "cannot be a label"),
        ({"url": "http://p", "labels": {"cluster": 1}}, "an object of labels"),
        ({"url": "http://p", "stale_seconds": 1}, "from 5 to 600"),
    ],
)
def test_settings_that_cannot_be_meant_are_told(given: Any, why: str) -> None:
    with pytest.raises(InvalidGateway, match=why):
        PrometheusSettings.read(given)


@pytest.mark.django_db
def test_only_workers_that_are_ready_must_have_been_scraped(tmp_path: Path, settings: Any) -> None:
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)
    worker = Scene.of_superuser().worker
    deployment = worker.deployment
    assert ready_workers(deployment.service) == {deployment.name: 1}
    type(worker).objects.filter(pk=worker.pk).update(state=WorkerState.STARTING)
    assert ready_workers(deployment.service) == {deployment.name: 0}
