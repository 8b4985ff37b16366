"""The process that watches: everything listed, then what changes. In a process of its own for each size."""

import gc
import json
import subprocess
import sys
import time
from threading import Event
from typing import Any

import psutil

from perf.kubernetes.documents import GPUS, PODS_PER_NODE, LargeListServer, event, node_at, pod_at
from perf.registry.table import ROOT

EVENTS = 5_000
EVENTS_PER_SECOND = 500
NODES_AMONG_EVENTS = 20
"""Of so many events one is of a machine, the others of pods."""


def measured(machines: int, *, pods: str) -> dict[str, float]:
    command = [sys.executable, "-m", "perf.kubernetes", "--alone", pods, "--machines", str(machines)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def alone(machines: int, *, pods: str) -> None:
    """`pods`: `ours`, as workers are watched, or `all`, as pods are counted."""
    from clusters.backends.kubernetes.manifests import DEPLOYMENT
    from clusters.backends.kubernetes.nodes import node_of
    from clusters.backends.kubernetes.pods import worker_of
    from clusters.backends.kubernetes.standing import pod_of
    from clusters.backends.node_observations import packed
    from clusters.backends.observed_pods import packed as packed_pod
    from kube.client import KubeClient
    from kube.informer import Informer
    from kube.resources import NODES, PODS

    def kept(pod: Any) -> Any:
        if pods == "all":
            return packed_pod(pod_of(pod))
        if DEPLOYMENT in pod["metadata"]["labels"]:
            return pod["metadata"]["labels"][DEPLOYMENT], worker_of(pod)
        return None

    server = LargeListServer(machines)
    client = KubeClient(server)
    heard = [
        Informer(client, NODES, keep=lambda node: packed(node_of(node))),
        Informer(client, PODS, keep=kept),
    ]
    me, stop = psutil.Process(), Event()
    gc.collect()
    before = me.memory_info().rss
    result: dict[str, float] = {}
    for name, one in zip(("nodes", "pods"), heard, strict=True):
        server.seconds, server.bytes = 0.0, 0
        began = time.process_time()
        one.step(stop)
        result[f"{name} list"] = time.process_time() - began - server.seconds
        result[f"{name} bytes"] = server.bytes
    result["peak"] = me.memory_info().rss - before
    gc.collect()
    result["kept"] = sum(len(one.snapshot()) for one in heard)
    result["memory"] = _allocated(heard)
    changes = {"nodes": [], "pods": []}  # type: dict[str, list[bytes]]
    for number in range(EVENTS):
        is_node = number % NODES_AMONG_EVENTS == 0
        item = node_at(number % machines % 500) if is_node else pod_at(number % 500)
        changes["nodes" if is_node else "pods"].append(event(item, 2_000 + number))
    began = time.process_time()
    for name, one in zip(("nodes", "pods"), heard, strict=True):
        server.events = changes[name]
        one.step(stop)
    result["events"] = time.process_time() - began
    print(json.dumps(result))


def _allocated(heard: Any) -> float:
    """Bytes of what is kept, each object once."""
    seen: set[int] = set()

    def size(value: Any) -> int:
        if id(value) in seen or isinstance(value, type):
            return 0
        seen.add(id(value))
        below: list[Any] = []
        if isinstance(value, dict):
            below = [*value.keys(), *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            below = list(value)
        elif hasattr(type(value), "__dataclass_fields__"):
            below = [getattr(value, name) for name in type(value).__dataclass_fields__]
        return sys.getsizeof(value) + sum(map(size, below))

    return float(sum(size(dict(one.snapshot())) for one in heard))


OBJECTS_PER_MACHINE = 1 + PODS_PER_NODE
GPUS_PER_MACHINE = GPUS
