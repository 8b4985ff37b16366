"""A relay hears whom the control plane has named, and tells all of it in one message."""

import hashlib
import json
import time
from dataclasses import replace

import pytest

from serving.fields import ProtocolError
from serving.protocol import WorkerState
from serving.relay import NotLetIn, Relay
from serving.relay_protocol import MOST_WORKERS, RelayReport
from tests.serving.test_protocol import BEAT

TOKEN = "slp_mine"


def answer(**fields: object) -> bytes:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    given = {"revision": "1", "reporters": {digest: BEAT.deployment}, "targets": [], "refused": []}
    return json.dumps(given | fields).encode()


@pytest.fixture
def relay() -> Relay:
    found = Relay()
    found.learn(answer())
    return found


def report(relay: Relay) -> RelayReport:
    return RelayReport.from_dict(json.loads(relay.compose()))


def test_it_tells_all_workers_by_their_machines_in_one_message(relay) -> None:
    relay.hear(TOKEN, replace(BEAT, worker="a", machine="box-2"))
    relay.hear(TOKEN, replace(BEAT, worker="b", machine="box-1"))
    relay.hear(TOKEN, replace(BEAT, worker="c", machine="box-2"))
    found = report(relay)
    assert [(one.machine, len(one.workers)) for one in found.machines] == [("box-1", 1), ("box-2", 2)]
    assert found.known == "1"
    assert report(relay).sequence == found.sequence + 1


def test_only_who_was_named_is_heard_and_for_its_own_deployment(relay) -> None:
    with pytest.raises(NotLetIn, match="of no deployment here"):
        relay.hear("slp_other", BEAT)
    with pytest.raises(NotLetIn, match="not of another"):
        relay.hear(TOKEN, replace(BEAT, deployment="another"))
    assert report(relay).machines == []


def test_a_token_that_was_revoked_is_heard_no_more_and_what_it_said_is_forgotten(relay) -> None:
    relay.hear(TOKEN, BEAT)
    relay.learn(answer(revision="2", reporters={}))
    assert report(relay).machines == []
    with pytest.raises(NotLetIn):
        relay.hear(TOKEN, BEAT)


def test_an_answer_without_news_or_that_cannot_be_read_leaves_what_is_known(relay) -> None:
    for body in (json.dumps({"revision": "1", "refused": []}).encode(), b"<html>", b"{}"):
        relay.learn(body)
        relay.hear(TOKEN, BEAT)
    assert report(relay).known == "1"


def test_whoever_is_silent_is_left_out_and_a_change_of_state_is_news(relay, monkeypatch) -> None:
    assert relay.hear(TOKEN, BEAT)
    assert not relay.hear(TOKEN, BEAT)
    assert relay.hear(TOKEN, replace(BEAT, state=WorkerState.DRAINING))
    later = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert report(relay).machines == []


def test_it_keeps_no_more_than_it_may(relay) -> None:
    for number in range(MOST_WORKERS):
        relay.hear(TOKEN, replace(BEAT, worker=f"w-{number}"))
    with pytest.raises(ProtocolError, match=f"{MOST_WORKERS} workers already"):
        relay.hear(TOKEN, replace(BEAT, worker="one-more"))
    relay.hear(TOKEN, replace(BEAT, worker="w-0"))
    assert len(relay.compose()) < 2_500_000
    assert all(len(one.workers) <= 500 for one in report(relay).machines)
