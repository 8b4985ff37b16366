"""Pods that ask for it keep their work before they are evicted, within a limit."""

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.kubernetes.standing import checkpoint_of
from clusters.backends.observed_pods import CheckpointRequest
from clusters.draining.checkpoints import words_of
from clusters.models import Drain
from clusters.states import DrainState
from tests.clusters.test_drains import Draining

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Draining:
    return Draining()


def writes_it(scene: Draining, name: str) -> None:
    scene.operations.others = [
        replace(one, checkpoint=replace(one.checkpoint, is_done=True)) if one.name == name else one
        for one in scene.operations.others
    ]


def entry(row: Drain, name: str) -> dict[str, Any]:
    row.refresh_from_db()
    return next(one for one in row.pods if one["name"] == name)


def test_a_pod_is_evicted_when_its_checkpoint_is_written_and_not_before(scene: Draining) -> None:
    scene.stands("train-0", gpus={"nvidia.com/gpu": 8}, checkpoint=CheckpointRequest(seconds=600))
    scene.stands("web-0")
    row = scene.drain()
    scene.pass_(30)
    assert scene.operations.checkpoints_asked == ["train-0"]
    assert scene.evicted() == {"web-0"}
    assert scene.now(row).problem == "0 of 1 pods have written a checkpoint. Waiting for train-0."

    writes_it(scene, "train-0")
    scene.pass_(5)
    assert scene.now(row).state == DrainState.DRAINED
    assert entry(row, "train-0")["checkpoint"] == "done"
    assert words_of(row.pods) == "1 of 1 pods have written a checkpoint."


def test_a_pod_that_does_not_answer_in_its_time_is_evicted_all_the_same(scene: Draining) -> None:
    scene.stands("train-0", checkpoint=CheckpointRequest(seconds=20))
    row = scene.drain()
    scene.pass_(15)
    assert scene.evicted() == set()
    scene.pass_(15)
    assert scene.now(row).state == DrainState.DRAINED
    assert words_of(row.pods) == "0 of 1 pods have written a checkpoint. Not in time: train-0."


def test_the_drain_bounds_what_a_pod_may_ask_for(scene: Draining) -> None:
    scene.stands("train-0", checkpoint=CheckpointRequest(seconds=3600))
    row = scene.drain(checkpoint_seconds=10)
    scene.pass_(20)
    assert scene.now(row).state == DrainState.DRAINED


def test_with_no_time_for_checkpoints_nobody_is_asked(scene: Draining) -> None:
    scene.stands("train-0", checkpoint=CheckpointRequest())
    row = scene.drain(checkpoint_seconds=0)
    scene.pass_(10)
    assert scene.now(row).state == DrainState.DRAINED
    assert scene.operations.checkpoints_asked == []


def test_a_pod_that_keeps_its_work_on_sigterm_has_its_own_time_at_least(scene: Draining) -> None:
    on_sigterm = CheckpointRequest(on_sigterm=True)
    scene.stands("train-0", checkpoint=on_sigterm, grace_seconds=900)
    scene.stands("web-0", grace_seconds=900)
    scene.drain(grace_seconds=30)
    scene.pass_(10)
    assert sorted(scene.operations.evictions) == [("train-0", 900), ("web-0", 30)]


def test_what_a_pods_annotations_say_of_checkpoints() -> None:
    key = "slipway.io/checkpoint"
    assert checkpoint_of({key: "sigterm"}) == CheckpointRequest(on_sigterm=True)
    assert checkpoint_of({key: "120"}) == CheckpointRequest(seconds=120)
    asked = {key: "120", f"{key}-requested": "ada/drain-7"}
    assert checkpoint_of(asked) == CheckpointRequest(seconds=120)
    assert checkpoint_of({**asked, f"{key}-done": "ada/drain-6"}) == CheckpointRequest(seconds=120)
    assert checkpoint_of({**asked, f"{key}-done": "ada/drain-7"}) == CheckpointRequest(
        seconds=120, is_done=True
    )
    for none in ({}, {key: "0"}, {key: "soon"}, {key: "-5"}, {key: "999999999999"}):
        assert checkpoint_of(none) is None
