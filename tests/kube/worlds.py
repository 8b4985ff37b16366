"""What was in the recorded cluster before a topic's first request."""

import gzip
import json
from typing import Any

from kube.fake.server import FakeApiServer
from tests.kube.replay import RECORDED

NAMESPACES = {
    "01": ["rec-apply", "rec-apply2"],
    "02": ["rec-update", "rec-update-x"],
}


def world_of(topic: str) -> FakeApiServer:
    server = FakeApiServer()
    for name in NAMESPACES[topic]:
        server.make("namespaces", {"metadata": {"name": name}}, manager="slipway")
    for node in nodes():
        server.plant("nodes", {"apiVersion": "v1", "kind": "Node"} | node)
    return server


def nodes() -> list[dict[str, Any]]:
    """Nine machines, as the simulated kubelets registered them."""
    items: list[dict[str, Any]] = json.loads(gzip.decompress((RECORDED / "nodes.json.gz").read_bytes()))
    return items
