"""Load of a service by the hour: lengths as its workers counted them, over restarts and the ends of hours."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.fleet import LastHeartbeat
from clusters.heartbeat_records import record_of
from common.actor import Actor
from common.fence import Fence
from gateway import selectors
from gateway.backends.base import GatewayBackend
from gateway.backends.configured import backends_of
from gateway.client_access import unpacked_processes
from gateway.load_hours import LOAD_KEPT
from gateway.models import Gateway, LoadHour, TrafficReading
from gateway.reconcilers import GatewayReconciler
from gateway.routes import RouteSpec
from serving.desk import Desk, Progress, RequestOutcome
from serving.protocol import LENGTH_BOUNDS, validated_heartbeat
from tests.clusters.test_fleet import heartbeat
from tests.crash.harness import Clock, worker
from tests.gateway.cast import fake_gateway, set_route
from tests.gateway.test_abilities import deployment

pytestmark = pytest.mark.django_db(transaction=True)


def without_keys(row: Gateway) -> GatewayBackend:
    """The gateway as one that counts no tokens."""
    return replace(backends_of(row), clients=None)


class CountingWorker:
    """A worker's real books, heard over the protocol."""

    def __init__(self, started_at: float = 1.0) -> None:
        self.desk = Desk(slots=4, queue_limit=0)
        self._started_at = started_at

    def answer(self, prompt: int, answer: int, *, code: int = 200) -> None:
        progress = Progress(lambda: 0.0)
        progress.used(prompt_tokens=prompt, completion_tokens=answer)
        self.desk.record(RequestOutcome("/r", code, 0.1, broke_off=False, progress=progress))

    def heard(self) -> LastHeartbeat:
        said = heartbeat(
            counters=self.desk.counters,
            prompt_lengths=self.desk.prompt_lengths.counts,
            answer_lengths=self.desk.answer_lengths.counts,
            in_flight=2,
            started_at=self._started_at,
        )
        record = record_of(validated_heartbeat(said), None, now=2.0, turn=1)
        return LastHeartbeat.of_record(record, age_seconds=0.1, now=2.0)


def bins(counts: Any) -> dict[int, int]:
    return {LENGTH_BOUNDS[place]: count for place, count in enumerate(counts) if count}


def test_lengths_are_summed_over_restarts_and_hours_and_kept_for_a_week(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beats: dict[str, Any] = {}
    monkeypatch.setattr("clusters.heartbeat_records.latest", lambda _: beats)
    clock = Clock(datetime(2030, 1, 1, 12, 57, 5, tzinfo=UTC))
    fake_gateway()
    target = deployment("chat", beats)
    set_route(
        RouteSpec("chat", target, None, 0), fence=Fence(1, 1), actor=Actor(name="ann", user_id=1, via="web")
    )

    def minute(one: CountingWorker) -> None:
        beats["chat-0"] = one.heard()
        Gateway.objects.update(next_at=clock(), recorded_minute=0)
        worker([GatewayReconciler()], clock).sweep()
        clock.pass_(timedelta(minutes=1))

    first = CountingWorker()
    first.answer(500, 9)
    minute(first)
    first.answer(100, 7)
    first.answer(100, 20, code=500)
    minute(first)
    for _ in range(3):  # over the end of the hour
        first.answer(30, 7)
        minute(first)
    again = CountingWorker(started_at=50.0)
    again.answer(1, 1)
    minute(again)
    again.answer(30, 300)
    minute(again)

    assert [one.document["requests"] for one in LoadHour.objects.order_by("hour")] == [3, 3]
    load = selectors.service_load("chat", since=clock() - LOAD_KEPT)
    assert load is not None
    assert (bins(load.prompts), bins(load.answers)) == ({128: 1, 32: 4}, {8: 4, 384: 1})
    assert (load.requests, load.hours, load.in_flight, load.workers) == (6, 2, 2.0, 1.0)
    assert load.per_second == pytest.approx(3 / 3 / 60)

    monkeypatch.setattr("gateway.reconcilers.backends_of", without_keys)
    monkeypatch.setattr("gateway.key_selectors.backends_of", without_keys)
    clock.pass_(LOAD_KEPT + timedelta(hours=1))
    minute(again)
    told = unpacked_processes(TrafficReading.objects.order_by("minute").last().clients)  # type: ignore[union-attr]
    assert told is not None
    assert [one.counts.as_numbers() for one in told.values()] == [(2, 0, 0, 31, 301)]
    assert LoadHour.objects.count() == 1
    assert selectors.service_load("chat", since=clock() - LOAD_KEPT) is None
