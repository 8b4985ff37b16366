"""From the line of a fault to the cordon, for many faults at once, in simulated time."""

import heapq
import json
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from perf.registry.table import ROOT, database
from perf.required import RequiredFigure

MACHINES = 1_500
STORMS = ((150, 5.0, 28.0), (375, 10.0, 163.0), (750, 20.0, 419.0))
"""Faults, the P90 in seconds that is required, and NVSentinel's."""
CALL_SECONDS = 0.005
PROCESSES = 2
AGENTS_WITHIN_SECONDS = 1.0
SURVEYED_SECONDS = 5.0
LONGEST_SECONDS = 300.0
FAULT = "xid.79"
RULE = "default-xid.79"


@dataclass
class SimulatedWorld:
    """The time of the simulation, and whose turn it is."""

    base: datetime
    counts_cpu: bool
    seconds: float = 0.0
    process: int = 0
    calls: int = 0
    not_ours: float = 0.0
    """CPU seconds of the fake API server."""
    cordoned: dict[str, float] = field(default_factory=dict)

    def clock(self) -> datetime:
        return self.base + timedelta(seconds=self.seconds)

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def spend(self, work: Callable[[], Any]) -> tuple[Any, float]:
        """Own CPU seconds of the work, which take time where they count."""
        before, theirs = time.process_time(), self.not_ours
        result = work()
        own = time.process_time() - before - (self.not_ours - theirs)
        if self.counts_cpu:
            self.seconds += own
        return result, own


class PricedTransport:
    """A transport to the fake API server, at the price of the simulation and within the client's rate."""

    def __init__(self, world: SimulatedWorld, server: Any) -> None:
        from kube.fake.transport import FakeTransport
        from kube.rate import ORDINARY, TokenBucket

        self.world = world
        self._bucket = TokenBucket(ORDINARY, clock=lambda: world.seconds, sleep=world.sleep)
        self._inner = FakeTransport(server)

    def send(self, call: Any) -> Any:
        world = self.world
        self._bucket.take(limit_seconds=call.limit_seconds)
        world.seconds += CALL_SECONDS
        world.calls += 1
        began = time.process_time()
        reply = self._inner.send(call)
        self._inner.calls.clear()
        world.not_ours += time.process_time() - began
        if call.method == "PATCH" and reply.status == 200 and b'"unschedulable":' in (call.body or b""):
            world.cordoned.setdefault(call.path.rpartition("/")[2], world.seconds)
        return reply

    def stream(self, call: Any) -> Any:
        return self._inner.stream(call)

    def close(self) -> None:
        self._inner.close()


def measured(faults: int, *, counts_cpu: bool) -> dict[str, float]:
    """Measure in a process of its own: a database each."""
    command = [sys.executable, "-m", "perf.gpu_health", "--storm", str(faults)]
    done = subprocess.run(
        [*command, *(["--with-cpu"] if counts_cpu else [])],
        check=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    return dict(json.loads(done.stdout))


def alone(faults: int, *, counts_cpu: bool) -> None:
    with database():
        print(json.dumps(_storm(faults, counts_cpu=counts_cpu)))


def _storm(faults: int, *, counts_cpu: bool) -> dict[str, float]:
    from django.utils import timezone

    from clusters.models import Cluster
    from clusters.reconcilers.drains import DrainReconciler
    from common.reconcile import Kernel, kernel
    from gpu_health.reconcilers.incidents import IncidentReconciler
    from gpu_health.services.readings import accept_readings

    world = SimulatedWorld(timezone.now(), counts_cpu)
    cluster, server = _cluster()
    backends = [_backend(world, server) for _ in range(PROCESSES)]

    def backend_of(_cluster: Cluster) -> Any:
        return backends[world.process]

    kernels = []
    for _ in range(PROCESSES):
        one = Kernel(clock=world.clock)
        for reconciler in (IncidentReconciler(backend_of), DrainReconciler(backend_of)):
            one.register(reconciler)  # type: ignore[arg-type]
        kernels.append(one)
    rng = random.Random(7)
    arrivals = [
        (rng.random() * AGENTS_WITHIN_SECONDS, f"uid-{number:05d}")
        for number in rng.sample(range(MACHINES), faults)
    ]
    seeing: list[float] = []
    acting = 0.0
    with (
        mock.patch("django.utils.timezone.now", world.clock),
        mock.patch.object(kernel, "clock", world.clock),
    ):
        line = {
            "source": "kernel_log",
            "fault": FAULT,
            "clock": "epoch",
            "at": world.base.timestamp(),
            "gpu_bus_id": "0000:9b:00",
            # Of the machine's present start, whose id is that of the machine here.
            "raw": "NVRM: Xid (PCI:0000:9b:00): 79, pid=0, GPU has fallen off the bus.",
        }
        turns: list[tuple[float, int, Any]] = [(at, index, uid) for index, (at, uid) in enumerate(arrivals)]
        takers = [SimulatedStepWorker(number, kernels[number]) for number in range(PROCESSES)]
        for taker in takers:
            turns += [(0.0, faults + taker.number * 10 + thread, taker) for thread in range(_threads())]
        turns += [(SURVEYED_SECONDS, -1, None)]
        heapq.heapify(turns)
        while turns and len(world.cordoned) < faults:
            at, order, who = heapq.heappop(turns)
            if at > LONGEST_SECONDS:
                raise SystemExit(f"{len(world.cordoned)} of {faults} cordoned: {_why_not()}")
            world.seconds = at
            if who is None:
                _survey(cluster, world)
                heapq.heappush(turns, (at + SURVEYED_SECONDS, order, who))
            elif isinstance(who, SimulatedStepWorker):
                world.process = who.number
                done, own = world.spend(lambda who=who: who.turn(world.seconds))  # type: ignore[misc]
                acting += own
                heapq.heappush(turns, (world.seconds if done else who.looks_at, order, who))
            else:
                _, own = world.spend(
                    lambda who=who: accept_readings(  # type: ignore[misc]
                        cluster_id=cluster.pk, node_uid=who, entries=[line | {"origin": f"{who}/1"}]
                    )
                )
                seeing.append(own)
    times = sorted(world.cordoned.values())
    return {
        "p50": times[len(times) // 2],
        "p90": times[-(-len(times) * 9 // 10) - 1],
        "last": times[-1],
        "calls": world.calls / faults,
        "seeing": sum(seeing) / faults,
        "acting": acting / faults,
    }


class SimulatedStepWorker:
    """A process that takes due rows, as `common.reconcile.taking` does: looks four times a second, its share
    of the rows first."""

    def __init__(self, number: int, kernel: Any) -> None:
        from common.reconcile.pulses import RowShare
        from common.reconcile.taking import EVERY_SECONDS

        self.number = number
        self.every = EVERY_SECONDS
        self.looks_at = 0.0
        self._kernel = kernel
        self._share = RowShare(number, PROCESSES)
        self._due: deque[Any] = deque()

    def turn(self, now: float) -> bool:
        """Take a step of one row; False when there is none for now."""
        if not self._due and now >= self.looks_at:
            self.looks_at = now + self.every
            self._due.extend(row for row in self._kernel.due(limit=100) if self._share.holds(row))
        if not self._due:
            return False
        row = self._due.popleft()
        self._kernel.advance(row.kind, row.id, fence=row.fence)
        return True


def _survey(cluster: Any, world: SimulatedWorld) -> None:
    """Bring what the watch sees into the rows of machines; its CPU is measured by `perf.kubernetes`."""
    from clusters.models import Node
    from gpu_health.incident_facts import BY
    from gpu_health.reconcilers.seeing import TAINT

    taints = [{"key": TAINT.key, "effect": TAINT.effect.value, "value": ""}]
    rows = Node.objects.filter(cluster=cluster, name__in=list(world.cordoned))
    rows.update(is_cordoned=True, cordoned_by=BY, taints=taints)
    type(cluster).objects.filter(pk=cluster.pk).update(surveyed_at=world.clock())


def _why_not() -> str:
    from gpu_health.models import Finding, Incident

    row = Incident.objects.exclude(state="quarantined").first()
    if row is None:
        return f"no incident among {Finding.objects.count()} findings."
    return f"{row.state}: {row.hold_reason or row.reason} {row.last_error}"


def _threads() -> int:
    from common.reconcile.taking import PER_LANE

    return PER_LANE


def _backend(world: SimulatedWorld, server: Any) -> Any:
    from clusters.backends.kubernetes.backend import KubernetesCluster
    from clusters.backends.kubernetes.settings import KubernetesSettings
    from kube.client import KubeClient

    return KubernetesCluster(KubeClient(PricedTransport(world, server)), KubernetesSettings())


def _cluster() -> tuple[Any, Any]:
    """1,500 machines of eight GPUs as a survey has found them, and healing that acts with its breaker up."""
    from django.db import transaction
    from django.utils import timezone

    from clusters.backends.kubernetes.nodes import node_of
    from clusters.backends.node_observations import sightings_of
    from clusters.models import Cluster
    from clusters.reconcilers.inventory import ObservedCluster, record_machines
    from gpu_health.models import HealingPolicy, RuleChange
    from gpu_health.selectors import rule_in_force
    from kube.client import KubeClient
    from kube.fake.server import FakeApiServer
    from kube.fake.transport import FakeTransport
    from kube.resources import NODES
    from perf.kubernetes.documents import node

    server = FakeApiServer()
    for number in range(MACHINES):
        server.plant("nodes", node(f"gpu-{number:05d}", f"uid-{number:05d}", number))
    cluster = Cluster.objects.create(name="storm", kind="kubernetes", surveyed_at=timezone.now())
    seen = KubeClient(FakeTransport(server)).gather(NODES, keep=node_of).items
    with transaction.atomic():
        record_machines(cluster, ObservedCluster("", sightings_of(seen)), timezone.now())
    HealingPolicy.objects.create(
        pk=HealingPolicy.ONLY,
        mode="act",
        limits=dict.fromkeys(("breaker_percent", "domain_percent", "unhealthy_percent"), 100),
    )
    row = rule_in_force(RULE).row
    row.mode = "act"
    row.revision = 1
    row.changed_by = "perf"
    row.save()
    assert RuleChange.objects.filter(name=RULE, mode="act").exists()
    return cluster, server


def rows() -> list[RequiredFigure]:
    found: list[RequiredFigure] = []
    for faults, limit, theirs in STORMS:
        one = measured(faults, counts_cpu=False)
        told = (
            f"{one['p90']:.1f} s (median {one['p50']:.1f}, last {one['last']:.1f}; NVSentinel {theirs:g} s)"
        )
        found += [
            RequiredFigure(
                f"{faults} faults at once: line to cordon, P90",
                told,
                f"at most {limit:g}",
                one["p90"] <= limit,
            ),
            RequiredFigure("  calls to the API per fault", f"{one['calls']:.1f}"),
            RequiredFigure(
                "  own CPU per fault",
                f"{(one['seeing'] + one['acting']) * 1e3:.0f} ms, {one['seeing'] * 1e3:.0f} of it to judge",
            ),
        ]
    faults = STORMS[-1][0]
    one = measured(faults, counts_cpu=True)
    found.append(
        RequiredFigure(
            f"{faults} faults, with own CPU as time: P90", f"{one['p90']:.1f} s (last {one['last']:.1f})"
        )
    )
    return found
