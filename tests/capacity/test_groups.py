"""Groups of a service: who serves requests and who takes jobs, by rows, a queue and a gateway of tests."""

import time
from datetime import timedelta
from typing import Any

import orjson
import pytest
import redis
from django.conf import settings as django_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capacity import services
from capacity.errors import InvalidPool
from capacity.models import GroupSwitch, Pool, PoolMember, ServiceGroups
from capacity.planning.groups import GroupRules, GroupState, SplitMemory, split
from capacity.planning.law import ObservedLoad, ScalingLaw
from capacity.reconcilers import ServiceGroupsReconciler
from clusters.models import Deployment, Worker
from common.fence import Fence
from common.job_queue import ask_queue
from common.live import shared
from gateway.backends.fake import Behaviour, FakeGateway
from gateway.models import Gateway
from gateway.routes import RouteSpec, RouteTarget, WorkerEndpoint
from gateway.services.routes import sync_workers
from serving.jobs.groups import GroupAssignment
from serving.jobs.job import JobPolicy
from tests.cast import SYSTEM
from tests.clusters.world import Scene
from tests.crash.harness import worker
from tests.gateway.cast import set_route, use_gateway
from tests.valkey import ValkeyServer

JOB: Any = {
    "service": "chat", "target": "chat-v1", "version": "story:v1", "path": "/work", "query": "",
    "headers": {}, "body": b"", "policy": JobPolicy(),
}  # fmt: skip
LAW = ScalingLaw(0.8, hold_seconds=60)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    ready=st.integers(1, 20), least=st.integers(1, 5), load=st.floats(0, 30), jobs=st.integers(0, 50),
    latency=st.none() | st.floats(0, 1_000),
)  # fmt: skip
def test_requests_get_what_the_law_says_and_jobs_at_most_the_rest(
    ready: int, least: int, load: float, jobs: int, latency: float | None
) -> None:
    rules = GroupRules(least_online=least, latency_bound_ms=500)
    state = GroupState(ready, ready, jobs, latency_ms=latency, answers=9)
    told = split(LAW, rules, SplitMemory(), ObservedLoad(0, load, load), state)
    assert min(ready, max(least, -(-load // 0.8))) <= told.online <= ready
    assert ready - told.online <= jobs
    if latency is not None and latency > 500:
        assert (told.online, told.why) == (ready, "latency_bound")


class Grouped:
    """A service of four workers whose jobs wait in a real queue."""

    def __init__(self, gateway: FakeGateway) -> None:
        self.scene, self.fake = Scene(), gateway
        use_gateway(gateway)
        row = self.scene.deployment("chat-v1", service="chat", replicas=4)
        Deployment.objects.update(engine="app")
        spec = RouteSpec("chat", RouteTarget(row.name, "story:v1"), None, 0)
        set_route(spec, fence=Fence(1, 1), actor=SYSTEM)
        self.scene.pass_(3)
        sync_workers(row.name)
        pool = services.create_pool(
            actor=SYSTEM, team=self.scene.team, name="shared", cluster=self.scene.cluster, workers=4,
        )  # fmt: skip
        member = services.set_membership(pool, actor=SYSTEM, service="chat", guarantee=1, limit=4)
        Pool.objects.update(state="automatic")
        self.groups = services.set_groups(member, actor=SYSTEM, latency_bound_ms=300)
        self.load = 1.0
        self.holds: set[str] = set()
        """Workers that have a job in hand."""

    def jobs(self, number: int) -> None:
        for _ in range(number):
            ask_queue(lambda queue, _: queue.submit(**JOB))

    def assignment(self) -> GroupAssignment | None:
        return ask_queue(lambda _, store: store.assignment(("chat", "chat-v1")))

    def offline(self) -> frozenset[str]:
        """Workers that take jobs."""
        found = self.assignment()
        return found.offline if found else frozenset()

    def beat(self) -> None:
        """Workers do as they are told, as real ones do (tests/serving/jobs/test_groups.py)."""
        away = set(Worker.objects.filter(offline_since__isnull=False).values_list("uid", flat=True))
        online = Worker.objects.filter(state="ready").exclude(uid__in=away).count()
        waiting = max(0, int(4 * (self.load - online) / max(1, online)))
        offline = self.offline()
        with redis.Redis.from_url(django_settings.REDIS_URL) as client:
            for one in Worker.objects.filter(state="ready"):
                record = {
                    "worker": one.uid, "started_at": 1.0,
                    "pid": one.pid, "state": "ready", "reason": "", "in_flight": 4, "slots": 4,
                    "busy": 0.0 if one.uid in away else min(1.0, self.load / max(1, online)),
                    "queue_depth": 0 if one.uid in away else waiting, "counters": {"requests": 9},
                    "full_since": None, "ttft": None,
                    "group": "offline" if one.uid in offline else "online",
                    "jobs_running": int(one.uid in offline or one.uid in self.holds),
                }  # fmt: skip
                entry = orjson.dumps({"at": time.time(), "record": record})
                client.hset(shared._hash("heartbeats"), one.uid, entry)

    def pass_(self, seconds: float) -> None:
        kernel = worker([ServiceGroupsReconciler()], self.scene.clock)
        for _ in range(int(seconds * 2)):
            self.beat()
            kernel.sweep()
            self.scene.clock.pass_(timedelta(seconds=0.5))

    def online(self) -> int:
        """Count the workers to which the gateway sends requests."""
        place = self.fake.ready("chat-v1")
        assert all(isinstance(one, WorkerEndpoint) for one in place)
        return len(place)


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]


@pytest.fixture
def grouped(gateway: FakeGateway, settings: Any, valkey: ValkeyServer) -> Grouped:
    settings.SLIPWAY_JOBS_URL = valkey.url
    return Grouped(gateway)


def test_jobs_get_the_workers_that_requests_leave_and_give_them_back(grouped: Grouped) -> None:
    grouped.pass_(6)
    assert grouped.online() == 4, "no job waits"

    grouped.jobs(9)
    grouped.pass_(6)
    assert grouped.online() == 2, "a load of 1.0 at 87 % needs two"
    assert grouped.offline() == set(ServiceGroups.objects.get().wanted_offline)
    spare = [one for one in grouped.fake.endpoints("chat-v1") if getattr(one, "is_spare", False)]
    assert len(spare) == 2, "they get what the two refuse"
    grouped.load = 3.0
    grouped.pass_(30)
    assert grouped.online() == 4
    assert not grouped.offline()
    switch = GroupSwitch.objects.filter(online_after=4).latest("pk")
    assert switch.inputs["load"] == pytest.approx(3.0)
    assert switch.seconds is not None


def test_a_worker_gets_requests_when_its_job_has_ended(grouped: Grouped) -> None:
    services.set_groups(PoolMember.objects.get(), actor=SYSTEM)
    grouped.jobs(9)
    grouped.pass_(6)
    grouped.holds = set(grouped.offline())
    grouped.load = 3.0
    grouped.pass_(8)
    assert grouped.online() == 2
    assert not grouped.offline(), "they take no other job"
    grouped.holds = set()
    grouped.pass_(2)
    assert grouped.online() == 4


def test_the_latency_guard_brings_all_online_at_once_even_while_a_release_runs(grouped: Grouped) -> None:
    grouped.jobs(9)
    grouped.pass_(6)
    grouped.holds = set(grouped.offline())
    grouped.scene.deployment("chat-v2", service="chat", replicas=1)
    grouped.pass_(2)
    assert ServiceGroups.objects.get().look["held"] == "in_release"
    grouped.fake.behave("chat-v1", Behaviour(median_ms=900.0, first_byte_share=1.0))
    grouped.fake.send("chat", 20)
    grouped.pass_(4)
    assert grouped.online() == 4
    told = grouped.assignment()
    assert told is not None
    assert told.wait_seconds == 0
    assert GroupSwitch.objects.latest("pk").why == "latency_bound"


def test_nothing_changes_after_the_kill_switch_without_heartbeats_or_before_the_pool_may(
    grouped: Grouped,
) -> None:
    Pool.objects.update(state="advise")
    grouped.jobs(9)
    grouped.pass_(6)
    assert (grouped.online(), ServiceGroups.objects.get().look["wanted"]) == (4, 2)
    services.stop(actor=SYSTEM, reason="Too much at once.")
    Pool.objects.update(state="automatic")
    grouped.pass_(6)
    assert grouped.online() == 4
    services.resume(actor=SYSTEM)
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete(shared._hash("heartbeats"))
    grouped.beat = lambda: None  # type: ignore[method-assign]
    grouped.pass_(6)
    assert (grouped.online(), ServiceGroups.objects.get().look["held"]) == (4, "no_heartbeats")


def test_without_groups_all_workers_serve_again(grouped: Grouped) -> None:
    grouped.jobs(9)
    grouped.pass_(6)
    services.remove_groups(ServiceGroups.objects.get(), actor=SYSTEM)
    assert not Worker.objects.filter(offline_since__isnull=False).exists()
    assert grouped.assignment() is None


def test_groups_that_cannot_be_are_refused_by_their_field(grouped: Grouped) -> None:
    member = PoolMember.objects.get()
    for field, value in (("least_online", 0), ("least_online", 5), ("latency_bound_ms", 0)):
        with pytest.raises(InvalidPool) as refused:
            services.set_groups(member, actor=SYSTEM, **{field: value})
        assert list(refused.value.fields) == [field]
    Gateway.objects.update(kind="gateway_api")
    with pytest.raises(InvalidPool) as refused:
        services.set_groups(member, actor=SYSTEM)
    assert list(refused.value.fields) == ["service"], "such a gateway takes no worker out"
    Deployment.objects.update(engine="transformers")
    with pytest.raises(InvalidPool) as refused:
        services.set_groups(member, actor=SYSTEM)
    assert list(refused.value.fields) == ["service"]
