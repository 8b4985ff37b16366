"""The state of a deployment, judged from its workers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.states import DeploymentState, WorkerState
from clusters.verdicts import MANY_CRASHES, WorkerFacts, error_line, verdict

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def facts(name: str = "chat-v2-0", state: str = "ready", **fields: Any) -> WorkerFacts:
    given = {"state_since": NOW - timedelta(seconds=5), "has_process": True}
    return WorkerFacts(name=name, state=state, **given | fields)


def crashed(times: int, **fields: Any) -> WorkerFacts:
    return facts(
        crashes=times,
        crashes_since=NOW - timedelta(seconds=20),
        crashed_at=NOW,
        **{"state": "starting", "reason": "exit status 1", "crash_line": "RuntimeError: no memory"} | fields,
    )


@pytest.mark.parametrize(
    ("workers", "was_ready", "state", "reason"),
    [
        ([facts(), facts("chat-v2-1")], False, "ready", ""),
        ([facts(), facts("chat-v2-1", "starting")], False, "starting", "1 of 2 workers are ready"),
        ([facts()], True, "degraded", "1 of 2 workers are ready"),
        (
            [facts("a-0"), crashed(1)],
            True,
            "degraded",
            "1 of 2 workers are ready; chat-v2-0 exited: exit status 1: RuntimeError: no memory",
        ),
        (
            [facts("a-0"), crashed(3)],
            True,
            "failing",
            "chat-v2-0 exited 3 times in 20 s: exit status 1: RuntimeError: no memory",
        ),
        ([facts("a-0"), facts("a-1"), crashed(5, state="ready")], True, "ready", ""),
        ([facts(), facts("b", "failed", reason="No weights.")], False, "failing", "b failed: No weights."),
        (
            [facts(), facts("b", "failed", has_process=False)],
            True,
            "degraded",
            "1 of 2 workers are ready",
        ),
        (
            [facts("b", "failed", has_process=False, state_since=NOW - timedelta(seconds=10))],
            True,
            "failing",
            "b failed",
        ),
        ([facts(), facts("b", "draining"), facts("c")], True, "ready", ""),
    ],
)
def test_verdicts(workers: list[WorkerFacts], was_ready: bool, state: str, reason: str) -> None:
    found = verdict(wanted=2, workers=workers, was_ready=was_ready, now=NOW)
    assert (found.state, found.reason) == (state, reason)


def test_one_wanted_worker_is_singular_and_none_is_ready_at_once() -> None:
    assert verdict(wanted=1, workers=[], was_ready=False, now=NOW).reason == "0 of 1 worker is ready"
    assert verdict(wanted=0, workers=[], was_ready=False, now=NOW).state == DeploymentState.READY


def test_a_reason_is_not_said_twice() -> None:
    worker = crashed(3, reason="Its last process ended: exit status 1. RuntimeError: no memory")
    reason = verdict(wanted=1, workers=[worker], was_ready=True, now=NOW).reason
    assert reason.count("no memory") == 1


@given(
    st.lists(st.tuples(st.sampled_from([*WorkerState.values]), st.integers(0, 5), st.booleans()), max_size=5),
    st.integers(0, 4),
    st.booleans(),
)
def test_ready_means_enough_ready_workers_and_nobody_beyond_hope(shapes, wanted, was_ready) -> None:
    workers = [
        facts(f"w-{number}", state, crashes=crashes, has_process=process)
        for number, (state, crashes, process) in enumerate(shapes)
    ]
    found = verdict(wanted=wanted, workers=workers, was_ready=was_ready, now=NOW)
    ready = [worker for worker in workers if worker.state == WorkerState.READY]
    looping = [w for w in workers if w.state != WorkerState.READY and w.crashes >= MANY_CRASHES]
    if found.state == DeploymentState.READY:
        assert len(ready) >= wanted
        assert not looping
        assert found.reason == ""
    else:
        assert found.reason
    if looping:
        assert found.state == DeploymentState.FAILING


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", ""),
        ("INFO listening\nINFO bye", ""),
        ("Traceback (most recent call last):\n  File\nRuntimeError: boom\nINFO bye", "RuntimeError: boom"),
        ("ValueError: one\ntorch.cuda.OutOfMemoryError: two\n", "torch.cuda.OutOfMemoryError: two"),
        ("12:00:01 ERROR x KeyError: 'a'", "12:00:01 ERROR x KeyError: 'a'"),
        ("errors were found", ""),
        ('{"message": "failed", "exception": "Traceback\\n  x\\nRuntimeError: boom"}', "RuntimeError: boom"),
        ("{'a': 1} KeyError: 'b'", "{'a': 1} KeyError: 'b'"),
        ("OSError: " + "x" * 1000, "OSError: " + "x" * 390 + "…"),
    ],
)
def test_the_line_that_says_most_about_an_end(log: str, line: str) -> None:
    assert error_line(log) == line
