import threading
import time

import pytest
from django.conf import settings
from django.test import Client

from common.health import HealthProbe, NotInUse, PartHealth, PartState, Unhealthy
from controlplane import health
from controlplane.health import parts_health
from controlplane.readiness_key import HEADER, readiness_key


def sick() -> str:
    raise Unhealthy("has a fever")


def test_a_healthy_part_tells_what_it_saw() -> None:
    answer = parts_health((HealthProbe("heart", lambda: "beats", vital=True),))["heart"]

    assert (answer.ok, answer.detail) == (True, "beats")


def test_a_failing_part_tells_why_and_spoils_no_other() -> None:
    answers = parts_health(
        (HealthProbe("head", sick, vital=False), HealthProbe("heart", lambda: "beats", vital=True))
    )

    assert (answers["head"].ok, answers["head"].detail) == (False, "has a fever")
    assert answers["heart"].ok


def test_parts_that_hang_cost_one_second_together_and_are_asked_once() -> None:
    release, asked = threading.Event(), []

    def hang() -> str:
        asked.append(1)
        release.wait(60)
        return "late"

    probes = tuple(HealthProbe(f"part {number}", hang, vital=True) for number in range(10))
    begun = time.monotonic()
    answers = [parts_health(probes), parts_health(probes)]
    took = time.monotonic() - begun
    release.set()

    # One after the other they would take twenty.
    assert 1.9 < took < 10
    assert len(asked) == len(probes)
    assert {answer.state for parts in answers for answer in parts.values()} == {PartState.FAILING}


def test_a_part_that_answered_lately_is_slow_and_down_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    answers = iter(["beats"])
    monkeypatch.setattr("common.health.LIMIT_SECONDS", 0.05)
    probe = HealthProbe("heart", lambda: next(answers, "") or str(release.wait(60)), vital=True)
    assert probe.begin().result(timeout=10).state is PartState.UP

    def late() -> PartHealth:
        return probe.answer(probe.begin(), deadline=time.monotonic() + 0.05)

    slow = late()
    assert (slow.state, slow.ok) == (PartState.SLOW, True)
    monkeypatch.setattr("common.health.DOWN_AFTER_SECONDS", 0.0)
    down = late()
    release.set()
    assert (down.state, down.ok) == (PartState.DOWN, False)


def test_one_failed_question_does_not_make_a_part_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise ConnectionRefusedError("connection refused")

    probe = HealthProbe("heart", refuse, vital=True)
    first = probe.begin().result(timeout=10)
    monkeypatch.setattr("common.health.DOWN_AFTER_SECONDS", 0.0)
    later = probe.begin().result(timeout=10)

    assert [(one.state, one.ok) for one in (first, later)] == [
        (PartState.FAILING, False),
        (PartState.DOWN, False),
    ]


def test_a_part_that_nobody_set_up_is_neither_up_nor_down() -> None:
    def absent() -> str:
        raise NotInUse("none was made")

    answer = parts_health((HealthProbe("backup", absent, vital=False),))["backup"]

    assert (answer.state, answer.ok, answer.detail) == (PartState.OFF, True, "none was made")


@pytest.mark.parametrize(("vital", "status"), [(True, 503), (False, 200)])
def test_only_a_vital_part_makes_the_process_unready(
    client: Client, monkeypatch: pytest.MonkeyPatch, vital: bool, status: int
) -> None:
    probes = (HealthProbe("head", sick, vital=vital), HealthProbe("heart", lambda: "beats", vital=True))
    monkeypatch.setattr(health.parts_health, "__defaults__", (probes,))

    answer = client.get("/readyz", headers={HEADER: readiness_key(settings.SECRET_KEY)})

    assert answer.status_code == status
    report = answer.json()
    assert report["ready"] is (status == 200)
    assert report["healthy"] is False
    assert report["parts"]["head"]["detail"] == "has a fever"
    assert report["parts"]["head"]["vital"] is vital


def test_healthz_asks_nothing_but_the_process(client: Client) -> None:
    answer = client.get("/healthz")

    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert "no-store" in answer["Cache-Control"]
