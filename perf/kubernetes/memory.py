"""A worker after a cold start of a large cluster: checks, the first look at its machines, pods counted, and
everything heard. In a process of its own."""

import gc
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from kube.transport import ApiCall, ApiReply
from perf.kubernetes.documents import LargeListServer
from perf.registry.table import ROOT

HEARD_WITHIN_SECONDS = 120.0
LONGEST_WATCH_SECONDS = 600.0
RESET_PEAK = "5"
"""proc(5), clear_refs: the largest resident size is that of now."""
_MANY = re.compile(r"/api/v1/(nodes|pods)")


class LargeCluster:
    """A transport to an API server that has so many machines and pods, and nothing else that is not made."""

    def __init__(self, machines: int) -> None:
        from kube.fake.server import FakeApiServer
        from kube.fake.transport import FakeTransport

        server = FakeApiServer()
        server.make("namespaces", {"metadata": {"name": "slipway"}})
        self._few, self._many = FakeTransport(server), LargeListServer(machines)

    def send(self, call: ApiCall) -> ApiReply:
        whole = call.method == "GET" and _MANY.fullmatch(call.path) and "fieldSelector" not in call.query
        counted = call.method == "GET" and call.path == "/api/v1/pods"
        return self._many.send(call) if whole or counted else self._few.send(call)

    @contextmanager
    def stream(self, call: ApiCall) -> Iterator[tuple[ApiReply, Iterator[bytes]]]:
        if not _MANY.fullmatch(call.path):
            with self._few.stream(call) as answer:
                yield answer
            return
        yield ApiReply(200, {}, b""), _silence()

    def close(self) -> None:
        pass


def _silence() -> Iterator[bytes]:
    time.sleep(LONGEST_WATCH_SECONDS)
    yield from ()


def measured(machines: int) -> dict[str, Any]:
    """The database of this process is the other's, too."""
    command = [sys.executable, "-m", "perf.kubernetes", "--alone", "worker", "--machines", str(machines)]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def alone(machines: int) -> None:
    """Print bytes of this process: when it has loaded the code, at its peak, and at rest afterwards."""
    import django

    django.setup()
    from django.db import transaction
    from django.utils import timezone

    from clusters.backends.kubernetes.backend import KubernetesCluster
    from clusters.backends.kubernetes.settings import KubernetesSettings
    from clusters.models import Cluster
    from clusters.reconcilers.inventory import ObservedCluster, record_machines
    from clusters.reconcilers.occupancy import counts_of
    from kube.client import KubeClient

    def look() -> None:
        seen = ObservedCluster.of(backend.nodes())
        with transaction.atomic():
            record_machines(cluster, seen, timezone.now())

    cluster = Cluster.objects.create(name=f"perf-{machines}", kind="kubernetes")
    settings = KubernetesSettings(store_url="https://slipway.example")
    backend = KubernetesCluster(KubeClient(LargeCluster(machines)), settings)
    gc.collect()
    result: dict[str, Any] = {"loaded": _now("VmRSS")}
    heard = backend.watch(Event(), deployment_changed=lambda _name: None, machines_changed=lambda: None)
    for name, work in (
        ("checks", backend.checks),
        ("first look", look),
        ("pods", lambda: counts_of(backend.pods().pods, {})),
    ):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
        work()
        result[name] = _now("VmHWM")
    deadline = time.monotonic() + HEARD_WITHIN_SECONDS
    while heard.age_seconds is None or heard.pods()[1] is None:
        if time.monotonic() > deadline:
            raise SystemExit("The cluster was not heard.")
        time.sleep(0.05)
    gc.collect()
    result |= {"rest": _now("VmRSS"), "machines": len(heard.machines()), "pods": len(heard.pods()[0])}
    print(json.dumps(result), flush=True)
    os._exit(0)  # Watches end with their time.


def _now(name: str) -> int:
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(name))
    return int(line.split()[1]) * 1024
