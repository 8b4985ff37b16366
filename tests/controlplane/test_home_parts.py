"""How the parts of the stack fare, as the first page shows them, and how it learns of it without waiting."""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from common.health import HealthProbe, PartHealth, PartState, Unhealthy
from common.live.board import PUBLIC
from controlplane.embedded.parts import PartsReport, PartStatus
from controlplane.health import parts_health
from controlplane.home import consumers
from controlplane.home.background import FRESH_SECONDS, BackgroundValue
from controlplane.home.consumers import HomeTopic
from controlplane.home.parts import PartRow, PartsStatus, merged

UP = PartHealth(PartState.UP, True, "answers", 1.0)
DOWN = PartHealth(PartState.DOWN, True, "connection refused", 1.0)
SINCE = datetime(2030, 1, 1, tzinfo=UTC)


def part(name: str, state: str = "running", **fields: Any) -> PartStatus:
    up_for = timedelta(minutes=5) if state == "running" else None
    given = {"title": name, "pid": 1, "restarts": 0, "last_exit": "", "log": Path("log")} | fields
    return PartStatus(name=name, state=state, since=SINCE, up_for=up_for, **given)


def rows(parts: PartsStatus) -> dict[str, PartRow]:
    return {row.name: row for row in parts.rows}


def refused() -> str:
    raise Unhealthy("connection refused")


def test_where_nothing_is_supervised_each_question_is_a_part() -> None:
    probes = (
        HealthProbe("database", lambda: "answers", vital=True, title="Database"),
        HealthProbe("worker", refused, vital=False, title="Celery worker"),
    )
    parts = merged(parts_health(probes), None)

    assert [(row.title, row.state, row.detail) for row in parts.rows] == [
        ("Database", "up", "answers"),
        ("Celery worker", "down", "connection refused"),
    ]
    assert parts.in_trouble == 1


def test_parts_that_are_slow_or_not_set_up_are_not_in_trouble() -> None:
    states = (PartState.UP, PartState.SLOW, PartState.OFF, PartState.FAILING, PartState.DOWN)
    parts = merged({state: PartHealth(state, True, "", 1.0) for state in states}, None)

    assert [row.state for row in parts.rows] == list(states)
    assert parts.in_trouble == 2


def test_a_supervised_part_is_up_only_if_it_also_answers() -> None:
    health = {"redis": UP, "broker": DOWN, "database": UP}

    parts = merged(health, PartsReport((part("valkey"),), ""))

    assert set(rows(parts)) == {"valkey", "database"}
    valkey = rows(parts)["valkey"]
    assert (valkey.state, valkey.detail, valkey.since) == ("down", "connection refused", SINCE)


@pytest.mark.parametrize(
    ("state", "shown", "trouble"),
    [
        ("running", "up", 0),
        ("starting", "starting", 0),
        ("restarting", "restarting", 1),
        ("failed", "down", 1),
    ],
)
def test_a_part_is_shown_as_its_process_is(state: str, shown: str, trouble: int) -> None:
    parts = merged({"sweeper": UP}, PartsReport((part("sweeper", state),), ""))

    assert (rows(parts)["sweeper"].state, parts.in_trouble) == (shown, trouble)
    assert (rows(parts)["sweeper"].since is None) == (state != "running")


def test_a_supervisor_that_does_not_answer_is_told_and_hides_no_part() -> None:
    parts = merged({"database": UP}, PartsReport((), "No such socket."))

    assert (parts.problem, set(rows(parts))) == ("No such socket.", {"database"})


def test_the_page_is_drawn_anew_when_a_part_changes_and_not_when_a_figure_does() -> None:
    def fingerprint(health: PartHealth, **fields: Any) -> tuple[object, ...]:
        report = PartsReport((part("sweeper", **fields),), "")
        return merged({"sweeper": health}, report).fingerprint

    still = fingerprint(PartHealth(PartState.UP, False, "swept 0.1 s ago", 1.0))
    assert still == fingerprint(PartHealth(PartState.UP, False, "swept 0.9 s ago", 2.0))
    assert still != fingerprint(DOWN)
    assert still != fingerprint(PartHealth(PartState.UP, False, "swept 0.1 s ago", 1.0), restarts=1)


def test_who_is_fast_is_heard_at_once_and_not_asked_again_for_a_second() -> None:
    asked: list[int] = []
    background = BackgroundValue("test", lambda: asked.append(1) or len(asked))

    answers = [background.latest(patience_seconds=60) for _ in range(3)]

    assert [answer and answer.value for answer in answers] == [1, 1, 1]


def test_who_is_slow_is_asked_once_and_heard_later() -> None:
    answer, asked = threading.Event(), []

    def ask() -> str:
        asked.append(1)
        answer.wait(60)
        return "late"

    background = BackgroundValue("test", ask)
    begun = time.monotonic()
    assert background.latest(patience_seconds=0.05) is None
    assert background.latest(patience_seconds=0.05) is None
    assert time.monotonic() - begun < 30
    answer.set()
    heard = background.latest(patience_seconds=60)

    assert heard is not None
    assert (heard.value, len(asked)) == ("late", 1)


def test_an_old_answer_is_told_with_its_age_while_a_new_one_is_awaited() -> None:
    hold = threading.Event()
    hold.set()
    background = BackgroundValue("test", lambda: hold.wait(60))
    background.latest(patience_seconds=60)
    hold.clear()
    time.sleep(FRESH_SECONDS + 0.05)

    old = background.latest(patience_seconds=0.05)
    hold.set()

    assert old is not None
    assert old.age_seconds > FRESH_SECONDS


def test_it_says_look_again_when_a_part_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    health: list[Mapping[str, PartHealth]] = [
        {"worker": UP}, {"worker": UP}, {"worker": DOWN}, {"worker": DOWN}, {"worker": UP}
    ]  # fmt: skip
    touched: list[str] = []

    class Hub:
        def touched(self, kind: str) -> None:
            touched.append(kind)

    monkeypatch.setattr(consumers, "current_hub", Hub)
    monkeypatch.setattr(consumers, "parts_now", lambda patience_seconds: merged(health.pop(0), None))
    topic = HomeTopic()

    told = []
    while health:
        trouble = async_to_sync(topic.read)("")[PUBLIC]["parts.trouble"]
        told.append((trouble, len(touched)))

    assert told == [(0, 0), (0, 0), (1, 1), (1, 1), (0, 2)]
    assert set(touched) == {"home"}
