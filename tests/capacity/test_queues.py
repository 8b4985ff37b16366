"""Services have as many workers as the work in their queue needs: rows, a real queue, a cluster in memory."""

from datetime import timedelta
from typing import Any

import pytest

from capacity import services
from capacity.errors import InvalidPool
from capacity.models import CapacityPlan, Pool, PoolMember, ServiceQueue
from capacity.planning.backlog import QueueMemory, QueueState, recommend_for_queue
from capacity.reconcilers import CapacityPlanReconciler, PoolReconciler, ServiceQueueReconciler
from clusters.models import Deployment
from common import clock
from common.job_queue import ask_queue
from serving.jobs.job import JobPolicy
from tests.capacity.shared_pool import Shared
from tests.cast import SYSTEM, api, client_of, person
from tests.crash.harness import worker
from tests.valkey import ValkeyServer

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]
POOL = ("chat", "chat-v1")
JOB: dict[str, Any] = {
    "service": "chat", "target": "chat-v1", "version": "story:v1", "path": "/work", "query": "",
    "headers": {}, "body": b"", "policy": JobPolicy(),
}  # fmt: skip


class Queued(Shared):
    """`chat` works off a real queue of jobs, twenty seconds each; its pool has eight workers to give."""

    def __init__(self) -> None:
        super().__init__()
        Deployment.objects.update(engine="app")
        Pool.objects.update(workers=12, state="automatic")
        self.pool.refresh_from_db()
        services.set_membership(self.pool, actor=SYSTEM, service="chat", guarantee=0, limit=8)
        services.set_membership(self.pool, actor=SYSTEM, service="code", guarantee=3, limit=4)
        self.load = {"chat": 0.0, "code": 1.5}
        self.queue = services.set_queue(PoolMember.objects.get(service="chat"), actor=SYSTEM)
        self.debt = 0.0

    def submit(self, number: int) -> None:
        for _ in range(number):
            ask_queue(lambda queue, _: queue.submit(**JOB))

    def waiting(self) -> int:
        return ask_queue(lambda _, store: store.unfinished_count(POOL))

    def work(self, seconds: float) -> None:
        """Its workers finish jobs."""
        ready = Deployment.objects.get(service="chat").workers.filter(state="ready").count()
        self.debt = self.debt + ready * seconds / 20 if self.waiting() else 0.0
        for _ in range(int(self.debt)):
            job = ask_queue(lambda queue, _: queue.take(POOL, worker="w"))
            if job:
                ask_queue(
                    lambda queue, _, held=job: queue.finish(held, status=200, result_type="", result=b"")
                )
        self.debt -= int(self.debt)

    def pass_(self, seconds: float, *, by: float = 10.0) -> None:
        kernel = worker(
            [
                ServiceQueueReconciler(), PoolReconciler(), CapacityPlanReconciler(),
                *self.scene.reconcilers(),
            ],
            self.scene.clock,
        )  # fmt: skip
        for _ in range(int(seconds / by)):
            self.beat()
            self.work(by)
            kernel.sweep()
            self.scene.clock.pass_(timedelta(seconds=by))
        kernel.sweep()


@pytest.fixture
def queued(settings: Any, valkey: ValkeyServer) -> Queued:
    settings.SLIPWAY_JOBS_URL = valkey.url
    return Queued()


def test_workers_follow_the_queue_down_to_none_and_up_again(queued: Queued) -> None:
    queued.pass_(700, by=50)
    assert queued.workers() == {"chat": 0, "code": 3}, "nothing waits, nothing is guaranteed"

    queued.submit(60)
    queued.pass_(60)
    assert 4 <= queued.workers()["chat"] <= 8
    assert PoolMember.objects.get(service="chat").look["queue"] > 0
    queued.pass_(300)
    assert queued.waiting() == 0
    assert queued.workers()["chat"] > 0, "the hold"
    assert ServiceQueue.objects.get().look["item_seconds"] == pytest.approx(20, rel=0.2), "measured"
    queued.pass_(700, by=50)
    assert queued.workers()["chat"] == 0
    plans = CapacityPlan.objects.filter(state="done")
    assert {change["service"] for plan in plans for change in plan.changes} == {"chat"}


def test_a_queue_that_does_not_answer_is_not_empty(queued: Queued, settings: Any) -> None:
    queued.submit(40)
    queued.pass_(60)
    had = queued.workers()["chat"]
    queued.work = lambda seconds: None  # type: ignore[method-assign]
    settings.SLIPWAY_JOBS_URL = "redis://127.0.0.1:9/0"
    queued.pass_(1_000, by=40)
    assert queued.workers()["chat"] == had
    assert PoolMember.objects.get(service="chat").look["held"] == "no_queue"
    assert "answer" in ServiceQueue.objects.get().look["problem"]


def test_work_that_was_refused_for_want_of_a_worker_starts_one(
    queued: Queued, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.pass_(700, by=50)
    assert queued.workers()["chat"] == 0
    monkeypatch.setattr(clock, "now", queued.scene.clock)
    assert services.ask_for_worker("chat")
    queued.pass_(30)
    assert queued.workers()["chat"] == 1
    assert not services.ask_for_worker("code")


def test_a_deadline_that_will_be_missed_is_told_before_it_is(queued: Queued) -> None:
    """Forty minutes of work are not done by eight workers within four."""
    member = PoolMember.objects.get(service="chat")
    deadline = queued.scene.clock() + timedelta(minutes=4)
    services.set_queue(member, actor=SYSTEM, item_seconds=8, deadline=deadline)
    queued.submit(300)
    queued.pass_(20)
    row = ServiceQueue.objects.get()
    assert row.late_since is not None
    assert row.late_since < deadline
    assert 30 < row.look["late_seconds"] < 400
    page = client_of(person("olga", vision="approver")).get("/").content.decode()
    assert "Queue of chat" in page
    pool = client_of(person("ada", vision="approver")).get(f"/capacity/{queued.pool.pk}/").content.decode()
    assert f'data-moment="{deadline:%Y-%m-%dT%H:%M:%S}' in pool


def test_a_deadline_takes_the_fewest_workers_that_end_in_time() -> None:
    state = QueueState(
        at=100.0, waiting=1_000, in_hand=0, arrived=None, ready=1, starting=0, start_seconds=60.0, most=50,
        declared_item_seconds=2.0, deadline=3_700.0,
    )  # fmt: skip
    told = recommend_for_queue(QueueMemory(), state)
    assert (told.workers, told.late_seconds, told.why) == (1, 0.0, "deadline")
    soon = recommend_for_queue(QueueMemory(), QueueState(**{**vars(state), "deadline": 400.0}))
    assert 6 <= soon.workers <= 12


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "redis_list", "url": "http://queues.example", "subject": "a", "item_seconds": 1}, "url"),
        ({"kind": "redis_list", "url": "redis://u:p@queues.example", "subject": "a"}, "url"),
        ({"kind": "redis_list", "url": "redis://queues.example", "subject": "a"}, "item_seconds"),
        ({"kind": "redis_stream", "url": "redis://queues.example", "subject": "a"}, "consumer_group"),
        ({"kind": "prometheus", "url": "http://169.254.169.254", "subject": "a"}, "url"),
        ({"kind": "jobs", "url": "redis://queues.example"}, "url"),
        ({"kind": "jobs", "item_seconds": float("inf")}, "item_seconds"),
        ({"kind": "jobs", "item_seconds": -1.0}, "item_seconds"),
    ],
)
def test_a_queue_that_contradicts_itself_is_refused_by_its_field(
    queued: Queued, given: dict[str, Any], field: str
) -> None:
    member = PoolMember.objects.get(service="chat")
    with pytest.raises(InvalidPool) as refused:
        services.set_queue(member, actor=SYSTEM, **given)
    assert field in refused.value.fields


def test_people_give_a_service_a_queue_on_the_page_and_by_rest(queued: Queued) -> None:
    queued.pass_(20)
    page = f"/capacity/{queued.pool.pk}/"
    browser = client_of(person("ada", vision="approver"))
    shown = browser.get(page).content.decode()
    assert "Jobs of the service" in shown
    assert browser.post(f"{page}chat/+unqueue/").status_code in (204, 302)
    sent = {"form": "queue", "service": "chat", "kind": "jobs"}
    assert browser.post(page, sent).status_code == 302
    outside = {
        "kind": "redis_stream", "url": "rediss://queues.example:6379/0", "subject": "pictures",
        "consumer_group": "workers", "secret": "open sesame",
    }  # fmt: skip
    assert browser.post(page, {"form": "queue", "service": "chat", **outside}).status_code == 422
    assert api(person("dina", vision="developer")).put(
        "capacity/queues/chat/", outside
    ).status_code == 403, "it names a server"  # fmt: skip
    rest = api(person("root", superuser=True))
    row = rest.put("capacity/queues/chat/", outside)
    assert (row.status_code, row.json()["has_secret"]) == (200, True)
    assert "open sesame" not in row.content.decode()
    kept = rest.put("capacity/queues/chat/", {**outside, "secret": ""} | {"item_seconds": 2})
    assert kept.json()["has_secret"] is False
    assert rest.delete("capacity/queues/chat/").status_code == 204
