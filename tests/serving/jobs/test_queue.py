"""What both stores of jobs promise: the one of a single process, and Redis."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from serving.jobs.errors import JobConflict, JobLeaseLost, JobMissing, QueueFull, QueueUnreachable
from serving.jobs.job import JobPolicy, QueuedJob, QueuedJobState
from serving.jobs.queue import JobQueue
from serving.jobs.redis_store import RedisJobStore
from serving.jobs.store import MemoryJobStore
from tests.valkey import ValkeyServer

LEASE_SECONDS = 0.5
POOL = ("shapes", "shapes-1")


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.process)])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[JobQueue]:
    if request.param == "memory":
        yield JobQueue(MemoryJobStore(), lease_seconds=LEASE_SECONDS)
        return
    server: ValkeyServer = request.getfixturevalue("valkey_server")
    server.empty()
    store = RedisJobStore.at(server.url)
    yield JobQueue(store, lease_seconds=LEASE_SECONDS)
    await store.close()


async def submit(
    queue: JobQueue, body: bytes = b"{}", *, key: str = "", limit: int = 100, **policy: Any
) -> QueuedJob:
    return await queue.submit(
        service="shapes",
        target="shapes-1",
        version="shapes:v1",
        path="/render",
        query="size=2",
        headers={"x-tenant": "a", "authorization": "secret"} | ({"idempotency-key": key} if key else {}),
        body=body,
        policy=JobPolicy(**{"backoff_seconds": 0.0, **policy}),
        limit=limit,
    )


async def take(queue: JobQueue, worker: str = "w1") -> QueuedJob:
    job = await queue.take(POOL, worker=worker)
    assert job is not None, "nothing is due"
    return job


async def state_of(queue: JobQueue, job: QueuedJob) -> QueuedJobState:
    return (await queue.get(job.id)).state


async def test_jobs_are_taken_once_in_their_order_with_what_was_sent(queue: JobQueue) -> None:
    first, second = await submit(queue, b"\x00\xff1"), await submit(queue, b"2")
    taken = [await take(queue), await take(queue, "w2")]
    assert [job.id for job in taken] == [first.id, second.id]
    assert await queue.take(POOL, worker="w3") is None
    assert await queue.store.body(first.id) == b"\x00\xff1"
    assert (taken[0].query, taken[0].attempts, taken[0].worker) == ("size=2", 1, "w1")
    assert dict(taken[0].headers) == {"x-tenant": "a", "idempotency-key": first.id}


async def test_a_hundred_jobs_and_ten_workers_at_once_do_each_once(queue: JobQueue) -> None:
    queue.lease_seconds = 60.0
    sent = [await submit(queue) for _ in range(100)]
    done: list[str] = []

    async def work(worker: str) -> None:
        while len(done) < len(sent):
            if (job := await queue.take(POOL, worker=worker)) is not None:
                done.append(job.id)
                await queue.finish(job, status=200, result_type="text/plain", result=b"")

    async with asyncio.timeout(30):
        await asyncio.gather(*(work(f"w{number}") for number in range(10)))
    assert sorted(done) == sorted(job.id for job in sent)
    assert await queue.store.pools() == []


async def test_a_result_is_kept_and_then_forgotten_with_its_job(queue: JobQueue) -> None:
    job = await submit(queue, keep_seconds=1.0)
    await queue.finish(await take(queue), status=200, result_type="image/png", result=b"\x89")
    after = await queue.get(job.id)
    assert (after.state, after.status, after.result_type, after.progress) == (
        "succeeded",
        200,
        "image/png",
        1.0,
    )
    assert await queue.store.result(job.id) == b"\x89"
    await asyncio.sleep(1.1)
    with pytest.raises(JobMissing):
        await queue.get(job.id)
    assert await queue.store.result(job.id) == b""


async def test_a_worker_that_falls_silent_loses_its_job_and_its_late_answer(queue: JobQueue) -> None:
    await submit(queue)
    lost = await take(queue)
    await asyncio.sleep(LEASE_SECONDS + 0.1)
    again = await take(queue, "w2")
    assert (again.id, again.attempts, again.error) == (lost.id, 2, "The worker w1 was lost.")
    with pytest.raises(JobLeaseLost):
        await queue.renew(lost, progress=0.5, message="")
    with pytest.raises(JobLeaseLost):
        await queue.finish(lost, status=200, result_type="text/plain", result=b"late")
    await queue.finish(again, status=200, result_type="text/plain", result=b"good")
    assert await queue.store.result(lost.id) == b"good"


async def test_a_lease_that_is_renewed_goes_on_and_shows_progress(queue: JobQueue) -> None:
    job = await submit(queue)
    held = await take(queue)
    for _ in range(4):
        await asyncio.sleep(LEASE_SECONDS / 2)
        await queue.renew(held, progress=0.5, message="half")
        assert await queue.take(POOL, worker="w2") is None
    seen = await queue.get(job.id)
    assert (seen.state, seen.progress, seen.message) == (QueuedJobState.RUNNING, 0.5, "half")


async def test_what_fails_is_tried_again_and_then_a_dead_letter_that_can_be_retried(queue: JobQueue) -> None:
    job = await submit(queue, attempts=2)
    for _ in range(2):
        held = await take(queue)
        await queue.finish(held, status=500, result_type="text/plain", result=b"boom")
    dead = await queue.get(job.id)
    assert (dead.state, dead.attempts, dead.status, dead.error) == (QueuedJobState.FAILED, 2, 500, "boom")
    assert await queue.take(POOL, worker="w1") is None
    await queue.retry(job.id)
    again = await take(queue)
    assert (again.attempts, await queue.store.body(job.id)) == (3, b"{}")
    with pytest.raises(JobConflict):
        await queue.retry(job.id)


async def test_the_next_attempt_waits_twice_as_long_each_time(queue: JobQueue) -> None:
    await submit(queue, attempts=10, backoff_seconds=2.0)
    job = await queue.finish(await take(queue), status=503, result_type="", result=b"")
    pauses = [job.due_at - job.changed_at]
    for _ in range(2):
        now = job.due_at
        job = job.taken(worker="w", lease="x", now=now, lease_seconds=1.0).failed(now, status=503, error="")
        pauses.append(job.due_at - job.changed_at)
    assert job.state is QueuedJobState.QUEUED
    assert pauses == pytest.approx([2.0, 4.0, 8.0])
    early = job.taken(worker="w", lease="x", now=job.due_at - 0.1, lease_seconds=1.0)
    assert early is job, "a job that is not due yet is not taken"


async def test_a_request_that_is_wrong_is_not_tried_again(queue: JobQueue) -> None:
    job = await submit(queue)
    await queue.finish(await take(queue), status=422, result_type="application/problem+json", result=b"{}")
    assert await state_of(queue, job) is QueuedJobState.FAILED
    assert await queue.store.result(job.id) == b"{}"


async def test_cancelling_ends_what_waits_and_is_told_to_who_works(queue: JobQueue) -> None:
    waiting = await submit(queue)
    assert (await queue.cancel(waiting.id)).state is QueuedJobState.CANCELLED
    running = await submit(queue)
    held = await take(queue)
    assert (await queue.cancel(running.id)).state is QueuedJobState.RUNNING
    assert (await queue.renew(held, progress=0, message="")).is_cancelled
    await queue.finish(held, status=499, result_type="", result=b"")
    assert await state_of(queue, running) is QueuedJobState.CANCELLED
    assert (await queue.cancel(running.id)).state is QueuedJobState.CANCELLED
    with pytest.raises(JobMissing):
        await queue.cancel("0" * 32)


async def test_a_key_belongs_to_one_request(queue: JobQueue) -> None:
    job = await submit(queue, b"1", key="k")
    assert (await submit(queue, b"1", key="k")).id == job.id
    with pytest.raises(JobConflict):
        await submit(queue, b"2", key="k")
    assert (await take(queue)).headers["idempotency-key"] == "k"
    assert (await submit(queue, b"1", key="k")).id == job.id
    assert (await submit(queue, b"1", key="other")).id != job.id


async def test_what_nobody_took_in_time_fails(queue: JobQueue) -> None:
    job = await submit(queue, deadline_seconds=0.1)
    await asyncio.sleep(0.2)
    assert await queue.take(POOL, worker="w1") is None
    after = await queue.get(job.id)
    assert (after.state, after.status) == (QueuedJobState.FAILED, 504)


async def test_sweeping_ends_what_has_no_workers_any_more(queue: JobQueue) -> None:
    cancelled, late = await submit(queue), await submit(queue, deadline_seconds=0.2)
    lost = await submit(queue, attempts=1)
    held = await take(queue)
    await queue.cancel(held.id)
    await asyncio.sleep(LEASE_SECONDS + 0.1)
    await queue.sweep(POOL)
    assert held.id == cancelled.id
    assert [await state_of(queue, job) for job in (cancelled, late, lost)] == [
        "cancelled",
        "failed",
        "queued",
    ]


async def test_a_worker_that_leaves_gives_its_job_back_uncounted(queue: JobQueue) -> None:
    job = await submit(queue, attempts=1)
    await queue.give_back(await take(queue))
    again = await take(queue, "w2")
    assert (again.id, again.attempts) == (job.id, 1)


async def test_on_a_release_a_job_goes_to_the_next_version_unless_it_wants_the_same(queue: JobQueue) -> None:
    follows, stays = await submit(queue), await submit(queue, on_release="same")
    assert await queue.move(POOL, target="shapes-2", version="shapes:v2") == 1
    moved = await queue.take(("shapes", "shapes-2"), worker="w2")
    assert moved is not None
    assert (moved.id, moved.version) == (follows.id, "shapes:v2")
    assert (await take(queue)).id == stays.id
    left = await submit(queue, on_release="same")
    await queue.give_up(POOL, error="Its version was released away.")
    after = await queue.get(left.id)
    assert (after.state, after.status) == (QueuedJobState.FAILED, 410)


async def test_too_many_jobs_are_refused(queue: JobQueue) -> None:
    await submit(queue, limit=1)
    with pytest.raises(QueueFull):
        await submit(queue, limit=1)


async def test_who_waits_is_woken_by_a_new_job(queue: JobQueue) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    waiting = asyncio.create_task(queue.store.wait(POOL, 5.0))
    await asyncio.sleep(0.05)
    await submit(queue)
    await waiting
    assert loop.time() - began < 4.0


async def test_a_redis_that_is_gone_is_said_to_be() -> None:
    store = RedisJobStore.at("unix:///nowhere/valkey.sock")
    with pytest.raises(QueueUnreachable):
        await submit(JobQueue(store))
    await store.close()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("attempts", 0),
        ("attempts", 1.5),
        ("backoff_seconds", -1),
        ("deadline_seconds", "1"),
        ("on_release", "x"),
    ],
)
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        JobPolicy(**{option: value})
