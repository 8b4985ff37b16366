"""However slowly, however many at once: only so many machines of a pool leave service without a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from accounts.actors import of_user
from accounts.models import User
from accounts.states import Role
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster, Node
from common.reconcile import kernel as process_kernel
from gpu_health import metrics, selectors
from gpu_health.incident_facts import BY
from gpu_health.models import Drill, Finding, HealingPolicy, HealingPool, HealingSlot, Incident
from gpu_health.reconcilers.incidents import IncidentReconciler
from gpu_health.services.incidents import approve, cancel, consider
from kube.client import KubeClient
from kube.fake.cluster import node as machine
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.fake.wire import ADMIN
from kube.resources import NODES, Ref
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, die, worker

pytestmark = pytest.mark.django_db
LADDER = ["cordon", "contact_support"]


class HealedMachines:
    """Machines of a Kubernetes cluster that stand for each other."""

    def __init__(self, count: int, **limits: float) -> None:
        self.clock = Clock(timezone.now() + timedelta(seconds=5))
        self.client = self._server(count)
        self.cluster = Cluster.objects.create(name="gpus", kind="kubernetes", team=cast.team("serving"))
        rows = (
            Node(cluster=self.cluster, uid=f"node-n{number}", name=f"n{number}", seen_at=self.clock.at)
            for number in range(count)
        )
        self.nodes = Node.objects.bulk_create(rows)
        HealingPolicy.objects.create(pk=HealingPolicy.ONLY, mode="act", limits=limits)

    @staticmethod
    def _server(count: int) -> KubeClient:
        server = FakeApiServer()
        for number in range(count):
            server.plant("nodes", machine(f"n{number}", **{"nvidia.com/gpu": "8"}))
        return KubeClient(FakeTransport(server, user=ADMIN))

    def fresh_server(self) -> None:
        self.client = self._server(len(self.nodes))

    def falls_ill(self, number: int, *, outcome: str = "act") -> Incident:
        now, node = self.clock.at, self.nodes[number]
        Finding.objects.create(
            node=node, fault="xid.64", severity="fatal", outcome=outcome, ladder=LADDER, drain="none",
            verification="none", first_at=now, last_at=now,
        )  # fmt: skip
        consider(node)
        return Incident.objects.get(node=node)

    def works(self, *, seconds: float = 10, every: float = 2, checkpoints: Checkpoints | None = None) -> None:
        backend = KubernetesCluster(self.client, KubernetesSettings())
        kernel = worker([IncidentReconciler(lambda _cluster: backend)], self.clock, checkpoints)
        for _ in range(round(seconds / every)):
            kernel.sweep()
            self.survey()
            self.clock.pass_(timedelta(seconds=every))

    def survey(self) -> None:
        out = self.cordoned
        Node.objects.filter(name__in=out).update(is_cordoned=True, cordoned_by=BY)
        Node.objects.exclude(name__in=out).update(is_cordoned=False, cordoned_by="")
        Cluster.objects.update(surveyed_at=self.clock.at)

    @property
    def cordoned(self) -> list[str]:
        items = self.client.list(NODES).items
        return [one["metadata"]["name"] for one in items if one["spec"].get("unschedulable")]

    @property
    def held(self) -> list[Incident]:
        return list(Incident.objects.filter(state="proposed", hold="unhealthy").order_by("pk"))


@pytest.fixture
def operator() -> User:
    return cast.person("olga", serving=Role.OPERATOR)


def sample(name: str, **labels: str) -> float:
    found = (one for metric in metrics.incidents() for one in metric.samples)
    return next(one.value for one in found if one.name.endswith(name) and one.labels == labels)


@pytest.mark.any_database
def test_one_machine_every_40_seconds_stops_at_a_fifth_of_the_pool(operator: User) -> None:
    pool = HealedMachines(20)
    for number in range(20):
        pool.falls_ill(number)
        pool.clock.pass_(timedelta(seconds=40))
        if number % 3 == 1:
            pool.works(seconds=1, every=1)

    assert len(pool.cordoned) == 4
    assert not HealingPool.objects.get().breaker_opened_at, "too slow for the breaker"
    assert len(pool.held) == 16
    assert pool.held[0].hold_reason == (
        "4 other of 20 machines of gpus/default are out of service, 4 may be. "
        "It is quarantined when one returns, or when a person approves it."
    )
    assert selectors.waiting_for_approval(of_user(operator)).count() == 16
    assert sample("gpu_incidents_held", guard="unhealthy") == 16

    first = Incident.objects.earliest("pk")
    cancel(actor=of_user(operator), incident=first, returns=True, reason="it was a loose cable")
    pool.works(seconds=45, every=15)
    assert len(pool.cordoned) == 4, "one has taken the place of the one that returned"
    moved = Incident.objects.filter(state="needs_person").latest("pk")
    assert moved.asked_at is None

    approve(actor=of_user(operator), incident=pool.held[-1], reason="it serves wrong answers")
    pool.works(seconds=45, every=15)
    assert len(pool.cordoned) == 5
    assert len(pool.held) == 14


@pytest.mark.any_database
def test_a_storm_still_opens_the_breaker() -> None:
    pool = HealedMachines(20)
    for number in range(20):
        pool.falls_ill(number)
    pool.works()

    assert len(pool.cordoned) <= 4
    assert "10 of 20 machines" in HealingPool.objects.get().breaker_reason


@pytest.mark.parametrize(("count", "most"), [(1, 1), (3, 1), (5, 1), (9, 1), (10, 2)])
def test_small_pools_lose_one_machine_without_a_person(count: int, most: int) -> None:
    pool = HealedMachines(count, breaker_percent=100)
    for number in range(count):
        pool.falls_ill(number)
    pool.works()
    assert len(pool.cordoned) == most


def test_machines_that_others_took_out_of_service_count() -> None:
    pool = HealedMachines(10)
    Node.objects.filter(name="n8").update(state="not_ready")
    pool.client.patch(Ref(NODES, "n9"), {"spec": {"unschedulable": True}})
    pool.survey()
    pool.falls_ill(0)
    pool.works(seconds=2)
    assert pool.held


def test_whoever_approves_a_proposal_is_told_that_the_pool_has_no_room(operator: User) -> None:
    pool = HealedMachines(5)
    pool.falls_ill(0)
    pool.works()
    incident = pool.falls_ill(1, outcome="propose")
    pool.works()
    incident.refresh_from_db()
    assert (incident.hold, len(pool.cordoned)) == ("proposal", 1)
    assert "1 other of 5 machines of gpus/default are out of service, 1 may be." in incident.hold_reason

    approve(actor=of_user(operator), incident=incident, reason="both are bad")
    pool.works()
    assert len(pool.cordoned) == 2


def test_drills_take_no_room_from_real_incidents_and_need_none(operator: User) -> None:
    pool = HealedMachines(5)
    drilled = pool.falls_ill(0)
    drill = Drill.objects.create(
        node=pool.nodes[0], scenario="xid-64", way="agent", acts=True, ordered_by="olga",
    )  # fmt: skip
    Incident.objects.filter(pk=drilled.pk).update(drill=drill)
    pool.works()
    assert pool.cordoned == ["n0"]

    pool.falls_ill(1)
    pool.works()
    assert pool.cordoned == ["n0", "n1"]

    again = pool.falls_ill(2)
    Incident.objects.filter(pk=again.pk).update(drill=drill)
    HealingPool.objects.update(breaker_opened_at=timezone.now(), breaker_reason="a storm")
    pool.works()
    assert pool.cordoned == ["n0", "n1", "n2"], "the breaker and the pool hold no drill"
    assert not HealingSlot.objects.exists()


class Undo(Exception):
    """Rolls a story's rows back."""


@contextmanager
def undone() -> Iterator[None]:
    try:
        with transaction.atomic():
            # As Django marks the transactions of its test cases: what is inside is as if it were outside.
            connection.atomic_blocks[-1]._from_testcase = True
            yield
            raise Undo
    except Undo:
        pass


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sleeps", [False, True], ids=["dies", "sleeps"])
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_two_at_once_never_pass_together_wherever_a_worker_is_lost(
    monkeypatch: pytest.MonkeyPatch, stride: int, sleeps: bool
) -> None:
    pool = HealedMachines(5)
    monkeypatch.setattr(process_kernel, "clock", pool.clock)
    began = pool.clock.at
    point = 0
    while True:
        point += stride
        pool.clock.at = began
        pool.fresh_server()
        with undone():
            for number in (0, 1):
                pool.falls_ill(number)

            def sleep() -> None:
                pool.clock.pass_(LEASE_AND_A_BIT)
                pool.works()

            checkpoints = Checkpoints(at=point, then=sleep if sleeps else die, outside=sleeps)
            try:
                pool.works(checkpoints=checkpoints)
            except Crash:
                pool.clock.pass_(LEASE_AND_A_BIT)
            pool.works(seconds=40, every=4)
            assert len(pool.cordoned) == 1, point
            assert len(pool.held) == 1, point
            reserved = Incident.objects.filter(state="proposed", is_quarantined=True)
            assert not reserved.exists(), point
        if checkpoints.passed < point:
            break
    assert point > 8
