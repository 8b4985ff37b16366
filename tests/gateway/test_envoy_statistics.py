"""Counts of the Envoys of a Gateway, read from `/stats/prometheus` of each."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest

from common.fence import Fence
from gateway import selectors
from gateway.backends import configured
from gateway.backends.envoy.proof import envoy_binary
from gateway.backends.envoy_statistics import EnvoySettings, EnvoyStatistics, same_start
from gateway.errors import GatewayUnreachable, InvalidGateway
from gateway.latency import BOUNDS_MS, total
from gateway.models import Gateway, Route
from gateway.routes import Cohort, RouteSpec
from perf.envoy_stack import CANARY, STABLE, free_port
from tests.cast import SYSTEM
from tests.gateway.cast import cluster, fake_gateway, set_route
from tests.http_server import http_server
from tests.patience import eventually

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("outbound|8000||chat-r1.ml.svc.cluster.local", "ml/chat-r2/8000/abc", "kube_ml_chat-r10_8000")


def told(*, uptime: int = 100, **requests: int) -> str:
    """Return statistics of the clusters of `r1`, `r2` and `r10`."""
    lines = [f"envoy_server_uptime{{}} {uptime}"]
    for name, count in zip(NAMES, (requests.get(key, 1) for key in ("r1", "r2", "r10")), strict=True):
        cluster_name = f'envoy_cluster_name="{name}"'
        lines += [
            f"envoy_cluster_upstream_rq_total{{{cluster_name}}} {count}",
            f'envoy_cluster_upstream_rq_xx{{envoy_response_code_class="2",{cluster_name}}} {count - 1}',
            f'envoy_cluster_upstream_rq_xx{{envoy_response_code_class="5",{cluster_name}}} 1',
            f'envoy_cluster_upstream_rq_time_bucket{{{cluster_name},le="100"}} {count // 2}',
            f'envoy_cluster_upstream_rq_time_bucket{{{cluster_name},le="250"}} {count}',
            f'envoy_cluster_upstream_rq_time_bucket{{{cluster_name},le="+Inf"}} {count}',
        ]
    return "\n".join(lines)


@contextmanager
def envoy(said: list[str]) -> Iterator[str]:
    """Its address; it says the first."""

    class StatisticsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = said[0].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http_server(StatisticsHandler) as address:
        yield address


def counters(*urls: str) -> EnvoyStatistics:
    noted: dict[str, str] = {}

    def start_of(instance: str, seems: datetime) -> datetime:
        found = same_start(noted.get(instance), seems)
        noted[instance] = found.isoformat()
        return found

    settings = EnvoySettings.read({"urls": list(urls)})
    return EnvoyStatistics(settings, lambda _: ["chat-r1", "chat-r2"], start_of=start_of, clock=lambda: NOW)


def test_a_target_is_the_sum_over_all_envoys_of_the_cluster_that_has_its_name() -> None:
    with envoy([told(r1=10, r2=4, r10=99)]) as one, envoy([told(r1=20, r2=2)]) as other:
        found = counters(one, other).counts("chat")
    stable, canary = found["chat-r1"], found["chat-r2"]
    assert (stable.routed, stable.requests, stable.errors) == (30, 30, 2)
    assert (canary.routed, canary.requests, canary.errors) == (6, 6, 2)
    assert [bound for bound, _ in stable.latency_ms][:-1] == list(BOUNDS_MS)
    assert total(stable.latency_ms) == 30
    counts = [count for _, count in stable.latency_ms]
    assert counts == sorted(counts)


def test_an_envoy_that_starts_again_begins_a_new_epoch_and_a_late_uptime_does_not() -> None:
    said = [told(r1=5)]
    with envoy(said) as url:
        metrics = counters(url)
        first = metrics.counts("chat")["chat-r1"].epoch
        said[0] = told(r1=6, uptime=95)
        assert metrics.counts("chat")["chat-r1"].epoch == first
        said[0] = told(r1=1, uptime=3)
        assert metrics.counts("chat")["chat-r1"].epoch != first


def test_nothing_is_told_while_one_of_them_is_silent_or_names_no_service() -> None:
    with envoy([told(r1=5)]) as url, pytest.raises(GatewayUnreachable, match="does not answer"):
        counters(url, "http://127.0.0.1:9").counts("chat")
    with envoy(["envoy_server_uptime{} 4"]) as url, pytest.raises(GatewayUnreachable, match="count nothing"):
        counters(url).counts("chat")
    with envoy(["hello"]) as url, pytest.raises(GatewayUnreachable, match="is it its address"):
        counters(url).counts("chat")


@pytest.mark.parametrize("given", [None, {}, {"urls": []}, {"urls": ["https://x"]}, {"urls": [], "a": 1}])
def test_settings_without_addresses_are_refused(given: object) -> None:
    with pytest.raises(InvalidGateway, match="envoy"):
        EnvoySettings.read(given)


@pytest.mark.django_db(transaction=True)
def test_a_service_whose_clients_choose_is_not_counted_and_the_page_says_who_counts() -> None:
    fake_gateway()
    set_route(RouteSpec("chat", STABLE, CANARY, 5, release_header="open"), fence=Fence(1, 1), actor=SYSTEM)
    with envoy([told(r1=10, r2=4)]) as url:
        Gateway.objects.update(metrics="envoy", settings={"envoy": {"urls": [url]}}, revision=99)
        made = configured.look_at(Gateway.objects.get())
        assert made.metrics is not None
        with pytest.raises(GatewayUnreachable, match="release-header chat off"):
            made.metrics.counts("chat")
        Route.objects.update(release_header="off")
        made.metrics.counts("chat")
    (start,) = Gateway.objects.get().counter_starts.values()
    assert datetime.now(UTC) - datetime.fromisoformat(start) < timedelta(minutes=5)
    assert Cohort(header="x-cohort", value="beta").needs in made.cannot_count
    assert selectors.counted_by(cluster().pk) == "Counted by the Envoys of the Gateway"


def plain_config(*, port: int, admin_port: int, worker: str) -> dict[str, Any]:
    """Return the configuration of an Envoy as a Gateway's controller might set it up: ours keeps fewer
    statistics.
    """

    def at(address_port: int) -> dict[str, Any]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": address_port}}

    def extension(name: str, kind: str, **config: Any) -> dict[str, Any]:
        return {
            "name": name,
            "typed_config": {"@type": f"type.googleapis.com/envoy.extensions.{kind}"} | config,
        }

    manager = extension(
        "envoy.filters.network.http_connection_manager",
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="web",
        http_filters=[extension("envoy.filters.http.router", "filters.http.router.v3.Router")],
        route_config={
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": NAMES[1]}}],
                }
            ]
        },
    )
    endpoint = {"endpoint": {"address": at(int(worker.rpartition(":")[2]))}}
    return {
        "admin": {"address": at(admin_port)},
        "static_resources": {
            "listeners": [{"name": "web", "address": at(port), "filter_chains": [{"filters": [manager]}]}],
            "clusters": [
                {
                    "name": NAMES[1],
                    "type": "STATIC",
                    "load_assignment": {
                        "cluster_name": NAMES[1],
                        "endpoints": [{"lb_endpoints": [endpoint]}],
                    },
                }
            ],
        },
    }


@pytest.mark.stack
def test_a_real_envoy_counts_what_it_has_sent(tmp_path: Path) -> None:
    port, admin_port = free_port(), free_port()
    config = tmp_path / "envoy.json"
    with envoy(["hello"]) as worker:
        config.write_text(json.dumps(plain_config(port=port, admin_port=admin_port, worker=worker)))
        command = [str(envoy_binary()), "-c", str(config), "--disable-hot-restart", "--concurrency", "1"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: ask(port) == 200)
            metrics = counters(f"http://127.0.0.1:{admin_port}")
            before = metrics.counts("chat")
            assert [ask(port) for _ in range(12)] == [200] * 12
            after = metrics.counts("chat")
        finally:
            process.kill()
            process.wait()
    gained = {name: after[name].routed - before[name].routed for name in after}
    assert gained == {"chat-r1": 0, "chat-r2": 12}
    assert after["chat-r2"].requests - before["chat-r2"].requests == 12


def ask(port: int) -> int:
    """The status; 0: nobody answers."""
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/", timeout=5).status_code
    except httpx2.TransportError:
        return 0
