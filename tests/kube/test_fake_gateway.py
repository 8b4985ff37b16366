"""The Gateway of the fake cluster: a real Envoy does what its HTTPRoutes say, and no more is said of them."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.environment import PROJECT
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster
from kube.fake.gateway import envoy
from kube.fake.gateway.__main__ import FILES
from kube.fake.gateway.controller import GATEWAY, NAMESPACE, GatewayController
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import FakeTransport
from kube.resources import GATEWAYS, HTTP_ROUTES, PODS, Ref
from tests.patience import eventually
from tests.ports import PortBlock

PARENT = {"name": GATEWAY, "namespace": NAMESPACE}


def rule(path: str, *refs: tuple[str, int], headers: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    match: dict[str, Any] = {"path": {"type": "PathPrefix", "value": path}}
    if headers:
        match["headers"] = [{"type": "Exact", "name": name, "value": "yes"} for name in headers]
    backends = [{"name": name, "port": 80, "weight": weight} for name, weight in refs]
    return {"matches": [match], "backendRefs": backends, **more}


def route(*rules: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": HTTP_ROUTES.api_version,
        "kind": "HTTPRoute",
        "metadata": {"name": "models", "namespace": "slipway"},
        "spec": {"parentRefs": [PARENT], "rules": list(rules)},
    }


def test_the_longest_path_comes_first_then_who_asks_for_more_headers() -> None:
    made = envoy.routes(
        [route(rule("/", ("a", 1)), rule("/a/b", ("a", 1)), rule("/a/b", ("a", 1), headers=("x", "y")))]
    )
    (host,) = made["virtual_hosts"]
    assert host["domains"] == ["*"]
    assert [len(one["match"].get("headers", ())) for one in host["routes"]] == [2, 0, 0]
    assert host["routes"][-1]["match"] == {"prefix": "/"}


def test_nobody_gets_what_no_backend_has_a_share_of() -> None:
    (host,) = envoy.routes([route(rule("/a", ("a", 0)), rule("/b"))])["virtual_hosts"]
    assert [one["direct_response"] for one in host["routes"]] == [{"status": 500}] * 2


class Pod(ThreadingHTTPServer):
    """Answers with its name and the path that reached it."""

    daemon_threads = True

    def __init__(self, name: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"{name} {self.path} {self.headers.get('x-said', '-')}".encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Scene:
    def __init__(self, place: Path) -> None:
        ports = PortBlock()
        self.block = ports
        self.port, admin = ports[0], ports[1]
        self.cluster = SimulatedCluster(kinds=(*BUILT_IN, *gateway_api()))
        self.client = KubeClient(FakeTransport(self.cluster))
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slipway"}})
        self.controller = GatewayController(self.client, place / FILES, port=self.port, admin_port=admin)
        self.controller.furnish()
        command = [sys.executable, "-m", "kube.fake.gateway", str(place)]
        command += ["--port", str(self.port), "--admin-port", str(admin)]
        self.envoy = subprocess.Popen(command, cwd=PROJECT)
        self.servers: list[Pod] = []
        self.http = httpx2.Client(timeout=20)

    def run(self, name: str) -> None:
        """A Service with one pod."""
        server = Pod(name)
        self.servers.append(server)
        port = server.server_address[1]
        self.client.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "namespace": "slipway"},
                "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": "http"}]},
            }
        )
        container = {"name": "c", "image": "x", "ports": [{"name": "http", "containerPort": port}]}
        metadata = {"name": name, "namespace": "slipway", "labels": {"app": name}}
        spec = {"containers": [container], "nodeName": "n"}
        self.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [ready]}
        self.client.patch(Ref(PODS, name, "slipway"), {"status": status}, subresource="status")

    def conditions(self) -> dict[str, str]:
        """Return the route's conditions of its present generation."""
        self.controller.tick()
        seen = self.client.get(Ref(HTTP_ROUTES, "models", "slipway"))
        said = [
            one for parent in (seen.get("status") or {}).get("parents") or () for one in parent["conditions"]
        ]
        now = seen["metadata"]["generation"]
        return {one["type"]: one["reason"] for one in said if one["observedGeneration"] == now}

    def set_rules(self, *rules: dict[str, Any]) -> None:
        change = {"spec": {"rules": list(rules)}}
        self.client.patch(Ref(HTTP_ROUTES, "models", "slipway"), change)
        eventually(lambda: self.conditions().get("Accepted") == "Accepted")

    def ask(self, path: str, **headers: str) -> httpx2.Response:
        return self.http.get(f"http://127.0.0.1:{self.port}{path}", headers=headers)

    def close(self) -> None:
        self.http.close()
        self.envoy.terminate()
        self.envoy.wait(30)
        for server in self.servers:
            server.shutdown()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.process
@pytest.mark.timeout(120)
def test_requests_go_where_the_route_says_once_it_says_that_they_do(scene: Scene) -> None:
    scene.run("stable")
    scene.run("canary")
    rewrite = {
        "type": "URLRewrite",
        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}},
    }
    says = {
        "type": "RequestHeaderModifier",
        "requestHeaderModifier": {"set": [{"name": "x-said", "value": "it"}]},
    }
    chosen = rule("/chat/v1", ("canary", 1), headers=("x-release",), filters=[says])
    scene.client.create(route(rule("/chat/v1", ("stable", 1), filters=[rewrite]), chosen))
    eventually(lambda: scene.conditions() == {"Accepted": "Accepted", "ResolvedRefs": "ResolvedRefs"})
    assert scene.ask("/chat/v1/models").text == "stable /v1/models -"
    assert scene.ask("/chat/v1/models", **{"x-release": "yes"}).text == "canary /chat/v1/models it"
    assert scene.ask("/chat/v10/models").status_code == 404
    programmed = scene.client.get(Ref(GATEWAYS, GATEWAY, NAMESPACE))["status"]
    assert {one["type"]: one["status"] for one in programmed["conditions"]}["Programmed"] == "True"
    assert programmed["listeners"][0]["attachedRoutes"] == 1

    scene.set_rules(rule("/chat/v1", ("stable", 3), ("canary", 1)))
    seen = Counter(scene.ask("/chat/v1").text.split()[0] for _ in range(400))
    # Five standard deviations of a binomial with 400 trials of 1/4.
    assert abs(seen["canary"] - 100) < 44, seen

    scene.set_rules(rule("/chat/v1", ("canary", 1), ("stable", 0)))
    assert {scene.ask("/chat/v1").text.split()[0] for _ in range(20)} == {"canary"}

    scene.set_rules(rule("/chat/v1", ("nowhere", 1)))
    assert scene.conditions()["ResolvedRefs"] == "BackendNotFound"
    assert scene.ask("/chat/v1").status_code == 503
