"""A doorbell that nobody can hear is no reason to keep a request waiting."""

import logging

import pytest

from common import tasks
from common.reconcile import Due


@pytest.fixture(autouse=True)
def nothing_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_silent_until", 0.0)


def test_a_ring_at_a_dead_broker_does_not_wait_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_time_for_that(seconds: float) -> None:
        raise AssertionError(f"The request waits {seconds} s for a broker that is down.")

    monkeypatch.setattr("kombu.utils.functional.sleep", no_time_for_that)
    with caplog.at_level(logging.WARNING, logger="common.tasks"):
        tasks.ring(Due("releases.release", 1))
        tasks.ring(Due("releases.release", 2))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "release 1" in caplog.text
