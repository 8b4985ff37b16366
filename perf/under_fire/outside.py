"""The gateway and the cluster of a run, in memory of one process and called by others over a socket: they
stay when every process of the control plane is killed."""

import inspect
import json
import os
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.managers import BaseManager
from threading import RLock, Thread
from typing import Any

from clusters.backends.base import ClusterConfig, ObservedWorker
from clusters.backends.fake import FakeClusterBackend
from gateway.backends.base import GatewayBackend, GatewayRowConfig
from gateway.backends.fake import FakeGateway

PORT, KEY = "SLIPWAY_PERF_OUTSIDE", b"outside"


class AnsweringWorker(BaseHTTPRequestHandler):
    """Answers whatever is asked of any worker."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"text": "Yes.", "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class OneServerCluster(FakeClusterBackend):
    """The fake, whose workers all have the address of one server."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), AnsweringWorker)
        Thread(target=self.server.serve_forever, daemon=True).start()

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        return tuple(replace(one, port=self.server.server_port) for one in super().observe(deployment))


class OutsideWorld:
    """Gateway and cluster. One call at a time."""

    def __init__(self) -> None:
        self.gateway, self.cluster = FakeGateway(), OneServerCluster()
        self.lock = RLock()

    def call(self, part: str, name: str, values: tuple[Any, ...], how: dict[str, Any]) -> Any:
        with self.lock:
            return getattr(getattr(self, part), name)(*values, **how)

    def serve(self) -> int:
        """Answer other processes from now on; return the port."""

        class Serving(BaseManager):
            pass

        Serving.register("world", callable=lambda: self)
        server = Serving(address=("127.0.0.1", 0), authkey=KEY).get_server()
        Thread(target=server.serve_forever, daemon=True).start()
        return int(server.address[1])


class OutsideClient(BaseManager):
    pass


OutsideClient.register("world")


def remote(part: str, fake: type) -> Any:
    """Make an object with the public methods of the fake, each answered by the one outside."""

    def method(name: str) -> Any:
        def ask(_self: Any, *values: Any, **how: Any) -> Any:
            return _world().call(part, name, values, how)

        return ask

    methods = {
        name: method(name)
        for name, member in inspect.getmembers(fake, inspect.isfunction)
        if not name.startswith("_")
    }
    return type(f"Remote{fake.__name__}", (), methods)()


_worlds: dict[int, Any] = {}


def _world() -> Any:
    """Connect once in each process: a fork shares no connection."""
    if os.getpid() not in _worlds:
        client = OutsideClient(address=("127.0.0.1", int(os.environ[PORT])), authkey=KEY)
        client.connect()
        _worlds[os.getpid()] = client.world()  # type: ignore[attr-defined]
    return _worlds[os.getpid()]


def connect(_config: ClusterConfig) -> Any:
    cluster = remote("cluster", FakeClusterBackend)
    # Of this process: no machine is worked on.
    cluster.abilities, cluster.node_operations = (
        FakeClusterBackend.abilities,
        FakeClusterBackend().node_operations,
    )
    return cluster


def from_config(_config: GatewayRowConfig) -> GatewayBackend:
    gateway = remote("gateway", FakeGateway)
    return GatewayBackend(
        traffic=gateway, metrics=gateway, access=gateway, clients=gateway, public_url="http://127.0.0.1"
    )
