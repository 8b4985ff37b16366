"""What was in the recorded cluster before a topic's first request."""

import gzip
import json
from typing import Any

from kube.fake.cluster import FakeCluster
from kube.fake.extensions import EXTENSIONS
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from tests.kube.replay import RECORDED

NAMESPACES = {
    "01": ["rec-apply", "rec-apply2"],
    "02": ["rec-update", "rec-update-x"],
    "03": ["rec-list"],
    "06": ["rec-evict", "rec-evict2"],
    "08": ["rec-auth", "rec-tok", "rec-esc"],
    "09": ["rec-gw", "rec-gw2", "rec-gw-b"],
}


def world_of(topic: str) -> FakeCluster:
    server = FakeCluster(nodes=nodes(), kinds=(*BUILT_IN, *gateway_api(), *EXTENSIONS))
    server.operators_run = False
    server.kubelets.behaviour_of = recorded_behaviour
    for name in NAMESPACES[topic]:
        server.make("namespaces", {"metadata": {"name": name}}, manager="slipway")
    server.storage.oldest = server.storage.revision
    return server


def recorded_behaviour(pod: dict[str, Any]) -> str:
    """As the recording's simulated kubelets were told it."""
    return str((pod["metadata"].get("annotations") or {}).get("sim/behaviour", "run"))


def nodes() -> list[dict[str, Any]]:
    """Nine machines, as the simulated kubelets registered them."""
    items: list[dict[str, Any]] = json.loads(gzip.decompress((RECORDED / "nodes.json.gz").read_bytes()))
    return items
