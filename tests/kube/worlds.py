"""The recorded cluster before a topic's first request."""

import gzip
import json
from collections.abc import Callable
from typing import Any

from kube.fake.cluster import SimulatedCluster
from kube.fake.controllers.machines import HEALTH
from kube.fake.extensions import EXTENSIONS
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from tests.kube.replay import RECORDED, Happening

NAMESPACES = {
    "01": ["rec-apply", "rec-apply2"],
    "02": ["rec-update", "rec-update-x"],
    "03": ["rec-list"],
    "04": ["rec-deploy", "rec-deploy-q", "rec-deploy2"],
    "05": ["rec-jobs", "rec-jobs2"],
    "06": ["rec-evict", "rec-evict2"],
    "07": ["rec-nodes", "rec-nodes2"],
    "08": ["rec-auth", "rec-tok", "rec-esc"],
    "09": ["rec-gw", "rec-gw2", "rec-gw-b"],
    "10": ["rec-misc"],
}


def world_of(topic: str) -> SimulatedCluster:
    server = SimulatedCluster(nodes=nodes(), kinds=(*BUILT_IN, *gateway_api(), *EXTENSIONS))
    server.operators_run = False
    server.kubelets.behaviour_of = recorded_behaviour
    for name in NAMESPACES[topic]:
        server.make("namespaces", {"metadata": {"name": name}}, manager="slipway")
    server.storage.oldest = server.storage.revision
    return server


def happenings_of(topic: str) -> list[list[Happening]]:
    """Return what the recording's simulated machines did by themselves, by the seconds of their scripts."""
    if topic != "07":
        return []
    again = {node["metadata"]["name"]: node for node in nodes()}

    def falls_silent(name: str) -> Callable[[SimulatedCluster], None]:
        return lambda server: server.kubelets.silent.add(name)

    def is_back(name: str) -> Callable[[SimulatedCluster], None]:
        return lambda server: server.kubelets.silent.discard(name)

    def is_ready(name: str) -> Callable[[SimulatedCluster], None]:
        def say(server: SimulatedCluster) -> None:
            item = server.storage.get(server.kind_of("nodes"), "", name) or {}
            for one in item["status"]["conditions"]:
                if one["type"] == "Ready":
                    one |= {"status": "True", "reason": "KubeletReady", "message": HEALTH["Ready"][2]}
            server.plant("nodes", item)

        return say

    def registers(name: str) -> Callable[[SimulatedCluster], None]:
        def plant(server: SimulatedCluster) -> None:
            new = {"uid": server.writer.uid(), "creationTimestamp": server.clock.stamp()}
            node = again[name] | {"metadata": again[name]["metadata"] | new}
            server.plant("nodes", {"apiVersion": "v1", "kind": "Node"} | node)
            server.kubelets.silent.discard(name)

        return plant

    first = [(3.2, falls_silent("lost-1")), (80.0, is_back("lost-1")), (91.5, is_ready("lost-2"))]
    second = [(1.6, falls_silent("lost-1")), (57.5, registers("lost-1"))]
    return [[*first, (142.1, registers("lost-2"))], second]


def recorded_behaviour(pod: dict[str, Any]) -> str:
    """Return a pod's behaviour as the recording's simulated kubelets were told."""
    return str((pod["metadata"].get("annotations") or {}).get("sim/behaviour", "run"))


def nodes() -> list[dict[str, Any]]:
    """Nine machines, as the simulated kubelets registered them."""
    items: list[dict[str, Any]] = json.loads(gzip.decompress((RECORDED / "nodes.json.gz").read_bytes()))
    return items
