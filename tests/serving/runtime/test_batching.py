"""Which calls run together, and when."""

from serving.runtime.batching import OFFLINE, ONLINE, BatchQueue, BatchRule, Item


def item(id: int, arrived: float = 0.0, priority: int = ONLINE, deadline: float = float("inf")) -> Item:
    return Item(id, (id,), arrived, deadline, priority)


def queue(*ids: int, **rule: float) -> BatchQueue:
    made = BatchQueue(BatchRule(**rule))  # type: ignore[arg-type]
    for id in ids:
        made.add(item(id))
    return made


def ids(batch: list[Item]) -> list[int]:
    return [one.id for one in batch]


def test_a_lone_call_does_not_wait_for_calls_that_cannot_come() -> None:
    assert queue(1, max_wait=5.0).due_in(now=0.0, others=0) == 0


def test_a_batch_waits_for_requests_at_work_as_long_as_it_may() -> None:
    waiting = queue(1, max_wait=5.0)
    assert waiting.due_in(now=1.0, others=3) == 4.0
    assert waiting.due_in(now=5.0, others=3) == 0


def test_a_full_batch_does_not_wait() -> None:
    waiting = queue(1, 2, 3, max_size=2, max_wait=5.0)
    assert waiting.due_in(now=0.0, others=9) == 0
    assert ids(waiting.take(now=0.0)) == [1, 2]
    assert ids(waiting.take(now=0.0)) == [3]


def test_offline_calls_take_the_room_that_online_ones_leave() -> None:
    waiting = BatchQueue(BatchRule(max_size=3))
    for id in (1, 2):
        waiting.add(item(id, priority=OFFLINE))
    for id in (3, 4):
        waiting.add(item(id, arrived=1.0))
    assert ids(waiting.take(now=2.0)) == [3, 4, 1]
    assert waiting.order == (OFFLINE, 0.0)


def test_a_deadline_shortens_the_wait() -> None:
    waiting = BatchQueue(BatchRule(max_wait=5.0))
    waiting.add(item(1, deadline=2.0))
    assert waiting.due_in(now=0.0, others=1) == 2.0


def after(gaps: list[float], **rule: float) -> BatchQueue:
    """A queue to which calls came that far apart, each taken before the next; then one more that waits."""
    made, now = queue(**rule), 0.0
    for id, gap in enumerate(gaps):
        now += gap
        made.add(item(id, arrived=now))
        made.take(now=now)
    made.add(item(len(gaps), arrived=now + gaps[-1]))
    return made


def test_calls_that_come_rarely_wait_for_nobody_although_others_are_at_work() -> None:
    assert after([0.1] * 10, max_wait=0.002).due_in(now=1.1, others=3) == 0


def test_calls_that_come_in_bursts_wait_for_the_rest_of_theirs() -> None:
    assert after([0.03, 0.001, 0.001, 0.001] * 10, max_wait=0.002).due_in(now=0.0, others=3) > 0


def test_calls_wait_again_as_soon_as_they_come_close() -> None:
    assert after([0.1] * 50 + [0.001] * 10, max_wait=0.002).due_in(now=0.0, others=3) > 0


def measured(rule: BatchRule, fixed: float, each: float) -> BatchQueue:
    made = BatchQueue(rule)
    for size in (1, 2, 4, 8, 16, 32, 1, 2, 4, 8, 16, 32):
        made.observe(size, fixed + each * size)
    return made


def test_with_a_latency_bound_size_follows_from_measured_times() -> None:
    waiting = measured(BatchRule(max_size=256, latency=0.100), 0.010, 0.004)
    for id in range(60):
        waiting.add(item(id))
    size = len(waiting.take(now=0.0))
    assert 15 <= size <= 20, "10 ms and 4 ms an item: 19 fit into 100 ms less the margin"
    waiting = measured(BatchRule(max_size=256, latency=0.100), 0.010, 0.004)
    for id in range(60):
        waiting.add(item(id))
    assert len(waiting.take(now=0.050)) < size, "half of the time is over"


def test_with_a_latency_bound_the_wait_leaves_time_for_the_work() -> None:
    waiting = measured(BatchRule(max_size=256, latency=0.100), 0.020, 0.001)
    waiting.add(item(1))
    assert 0.05 < waiting.due_in(now=0.0, others=1) < 0.08


def test_what_is_late_already_is_worked_off_in_large_batches() -> None:
    waiting = measured(BatchRule(max_size=256, latency=0.010), 0.020, 0.001)
    for id in range(60):
        waiting.add(item(id))
    assert len(waiting.take(now=1.0)) == 60


def test_what_was_never_measured_begins_small() -> None:
    waiting = BatchQueue(BatchRule(max_size=256, latency=1.0))
    for id in range(60):
        waiting.add(item(id))
    assert len(waiting.take(now=0.0)) <= 2
