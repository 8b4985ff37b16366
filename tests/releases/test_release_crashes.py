"""A release ends as it would have, wherever its worker dies or falls asleep."""

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from common import audit
from common.reconcile import Kernel
from releases.models import Release
from releases.services.plan import save_plan
from releases.services.release import abort, rollback
from releases.states import ReleaseState
from tests.cast import SYSTEM
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.releases.world import Scene, undone

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

S = ReleaseState
PLAN = {
    "steps": [
        {"kind": "prefetch"},
        {"kind": "deploy", "share_percent": 100, "ready_within_seconds": 900},
        {"kind": "smoke_test", "requests": 1, "timeout_seconds": 30},
        {"kind": "mirror", "percent": 50, "seconds": 5},
        {"kind": "cohort", "header": "x-cohort", "value": "beta", "seconds": 1},
        {"kind": "weight", "percent": 30},
        {"kind": "hold", "seconds": 1},
        {"kind": "approval", "timeout_seconds": 3600},
        {"kind": "promote"},
    ]
}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene(monkeypatch)
    save_plan(actor=scene.requester, team=scene.team, name="brief", body=PLAN)
    return scene


@contextmanager
def told_anew(scene: Scene) -> Iterator[None]:
    """The same beginning for every story: rows and the worlds outside go back to where they were."""
    outside = {
        name: copy.deepcopy(vars(thing))
        for name, thing in (("gateway", scene.gateway), ("world", scene.world))
    }
    at = scene.clock.at
    try:
        with undone():
            yield
    finally:
        scene.gateway.__dict__.update(outside["gateway"])
        scene.world.__dict__.update(outside["world"])
        scene.clock.at = at


def sweep(scene: Scene, kernel: Kernel, *, until: Callable[[], bool], ticks: int = 400) -> None:
    for _ in range(ticks):
        if until():
            return
        kernel.sweep()
        scene.send(6)
        scene.clock.pass_(timedelta(seconds=0.5))
    raise AssertionError(f"It stays {scene.state()}: {scene.release.last_error}")


def promoted(scene: Scene, kernel: Kernel) -> None:
    sweep(
        scene,
        kernel,
        until=lambda: scene.state() in (S.WAITING_APPROVAL, S.RUNNING, S.PROMOTED) and has_word(scene),
    )
    sweep(scene, kernel, until=lambda: scene.state() == S.PROMOTED)


def has_word(scene: Scene) -> bool:
    """Clicks Approve as soon as that is asked for."""
    if scene.release.approvals.exists():
        return True
    if scene.release.state == S.WAITING_APPROVAL:
        scene.approve()
        return True
    return False


def aborted(scene: Scene, kernel: Kernel) -> None:
    sweep(
        scene,
        kernel,
        until=lambda: scene.state() not in (S.PENDING, S.RUNNING) or scene.release.step_index >= 5,
    )
    if not scene.release.halt:
        abort(scene.release, actor=scene.requester, reason="no")
    sweep(scene, kernel, until=lambda: scene.state() == S.ABORTED)


def rolled_back_warm(scene: Scene, kernel: Kernel) -> None:
    """Promoted with a bake time, and taken back within it."""
    if not Release.objects.filter(undoes__isnull=False).exists():
        promoted(scene, kernel)
        scene.release = rollback(scene.release, actor=scene.requester, reason="worse")
    else:
        scene.release = Release.objects.get(undoes__isnull=False)
    sweep(scene, kernel, until=lambda: scene.state() == S.PROMOTED)
    sweep(scene, kernel, until=lambda: not scene.running(scene.stable))


def baked(scene: Scene, kernel: Kernel) -> None:
    """Promoted with a bake time, which then passes."""
    if scene.state() != S.PROMOTED:
        promoted(scene, kernel)
    if scene.release.bake_until and scene.release.bake_until > scene.clock.at:
        scene.clock.at = scene.release.bake_until
    sweep(scene, kernel, until=lambda: not scene.running(scene.stable))


def check_rolled_back_warm(scene: Scene) -> None:
    undone = scene.release.undoes
    assert undone is not None
    assert set(scene.split(50)) == {scene.candidate} == {undone.stable_deployment}
    assert scene.running(scene.candidate) == 2
    assert scene.moves() == ["pending", "running", "promoted"]
    assert undone.bake_until is None
    assert Release.objects.filter(service=scene.service).count() == 3
    assert audit.verify().intact


def check_baked(scene: Scene) -> None:
    assert set(scene.split(50)) == {scene.candidate}
    assert scene.running(scene.candidate) == 2
    assert scene.moves()[-2:] == ["promoted", "promoted"]
    assert scene.moves().count("promoted") == 2
    scene.release.refresh_from_db()
    assert scene.release.bake_until is None
    check_record(scene)


def check_promoted(scene: Scene) -> None:
    assert set(scene.split(50)) == {scene.candidate}
    assert scene.running(scene.candidate) == 2
    assert scene.moves() == ["pending", "running", "waiting_approval", "running", "promoted"]
    assert [step.state for step in scene.release.steps.all()] == ["done"] * len(PLAN["steps"])
    check_record(scene)


def check_aborted(scene: Scene) -> None:
    assert set(scene.split(50)) == {scene.stable}
    assert scene.running(scene.candidate) == 0
    assert scene.running(scene.stable) == 2
    assert scene.moves()[-2:] == ["rolling_back", "aborted"]
    check_record(scene)


def check_record(scene: Scene) -> None:
    assert len(scene.moves()) == len(set(enumerate(scene.moves())))
    assert Release.objects.filter(service=scene.service).count() == 2
    assert audit.verify().intact


STORIES = {
    "promoted": (promoted, check_promoted, 0),
    "aborted": (aborted, check_aborted, 0),
    "rolled back warm": (rolled_back_warm, check_rolled_back_warm, 60),
    "baked": (baked, check_baked, 60),
}
"""Each with what must be true in the end, and the bake time of its plan in seconds."""


def tell(scene: Scene, story: str, *points: int) -> int:
    """Tell the story, a death at the given checkpoint of each worker in turn; returns how many took place."""
    go, check, bake_seconds = STORIES[story]
    deaths = 0
    with told_anew(scene):
        body = PLAN | {"bake_seconds": bake_seconds}
        save_plan(actor=SYSTEM, team=scene.team, name="brief", body=body)
        scene.start(plan_name="brief")
        for point in points:
            try:
                go(scene, scene.worker(Checkpoints(at=point, then=die)))
                break
            except Crash:
                deaths += 1
                scene.clock.pass_(LEASE_AND_A_BIT)
        else:
            go(scene, scene.worker())
        check(scene)
    return deaths


@pytest.mark.parametrize("story", ["promoted", "rolled back warm"])
def test_a_death_here_and_there_changes_nothing_in_the_end(scene: Scene, story: str) -> None:
    """At every eighth checkpoint of two stories, for a quick answer."""
    assert sum(tell(scene, story, point) for point in range(3, 60, 8)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_a_death_at_any_point_changes_nothing_in_the_end(scene: Scene, story: str) -> None:
    point = 1
    while tell(scene, story, point):
        point += 1
    assert point > 25


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES)
def test_two_deaths_change_nothing_in_the_end(scene: Scene, story: str) -> None:
    """All pairs would take hours: those close together, where recoveries meet, and a seeded sample."""
    chance = random.Random(7)
    pairs = [(first, second) for first in range(1, 40, 4) for second in (1, 3)]
    pairs += [(chance.randint(1, 60), chance.randint(1, 60)) for _ in range(20)]
    assert sum(tell(scene, story, *pair) for pair in pairs) > 30


@pytest.mark.slow
def test_a_worker_that_sleeps_past_its_lease_at_any_point_changes_nothing_in_the_end(scene: Scene) -> None:
    point = 0
    while True:
        point += 1
        with told_anew(scene):
            scene.start(plan_name="brief")

            def others_finish() -> None:
                scene.clock.pass_(LEASE_AND_A_BIT)
                promoted(scene, scene.worker())

            checkpoints = Checkpoints(at=point, then=others_finish, outside=True)
            promoted(scene, scene.worker(checkpoints))
            check_promoted(scene)
            if checkpoints.passed < point:
                break
    assert point > 40
