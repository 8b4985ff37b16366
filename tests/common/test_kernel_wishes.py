"""What others do to a row: wishes, interruptions, and answers to doubts."""

from datetime import timedelta
from typing import ClassVar

import pytest

from common.actor import Actor
from common.reconcile import Kernel, proceed
from common.transitions import IllegalMove, StateMachine
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, run_until_rest, worker
from tests.toys.models import Parcel
from tests.toys.parcels import Label, ParcelReconciler
from tests.toys.scene import Scene

pytestmark = pytest.mark.django_db

ANN = Actor(name="ann", user_id=1, via="web")


def test_an_interruption_outranks_a_step_under_way_at_any_point() -> None:
    point = 0
    while True:
        point += 1
        scene = Scene()
        scene.world.remembers_postings = True
        ours = scene.worker()

        def call_it_back(scene: Scene = scene, ours: Kernel = ours) -> None:
            ours.interrupt(scene.parcel, wants_return=True)
            run_until_rest(ours, scene.clock)

        checkpoints = Checkpoints(at=point, then=call_it_back, outside=True)
        scene.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            break
        scene.parcel.refresh_from_db()
        if scene.parcel.state == "returned":
            assert scene.world.label[1] == "back", f"a late label won after {checkpoints.names[point - 1]}"
        else:
            assert scene.parcel.state == "posted"
        scene.clear()
    assert point > 15


def test_a_wish_that_arrives_during_a_step_is_acted_on_at_once(monkeypatch) -> None:
    scene = Scene()
    ours = scene.worker()
    monkeypatch.setattr("tests.toys.parcels.moved", lambda parcel, to: slow_move(parcel, to))

    def slow_move(parcel, to):
        return proceed(save={"state": to}, write=lambda: None, after=timedelta(hours=1))

    scene.worker(Checkpoints(at=2, then=lambda: ours.wake(scene.parcel, wants_return=True) or None)).advance(
        "toys.parcel", scene.parcel.pk
    )
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "returned"


def test_an_irreversible_effect_in_doubt_is_asked_of_a_person_and_never_repeated() -> None:
    scene = Scene()
    scene.world.remembers_postings = False
    ours = scene.worker()
    names: list[str] = []

    def die_after_posting(name: str) -> None:
        names.append(name)
        if name == "acted" and scene.world.postings:
            raise Crash

    doomed = worker([ParcelReconciler(scene.world)], scene.clock)
    doomed.checkpoint = die_after_posting
    with pytest.raises(Crash):
        doomed.sweep()
    scene.clock.pass_(LEASE_AND_A_BIT)
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.stuck_at is not None
    assert "cannot be seen whether it took effect" in scene.parcel.last_error
    assert len(scene.world.postings) == 1

    assert ours.answer(
        scene.parcel, ours.doubts(scene.parcel).get().op_key, happened=True, actor=ANN, reason="I saw it."
    )
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "posted"
    assert len(scene.world.postings) == 1


def test_a_wish_on_a_stuck_row_has_it_tried_again(monkeypatch) -> None:
    scene = Scene()
    original = Label.act

    def refuse(self, row, operation) -> None:
        raise RuntimeError("no paper")

    monkeypatch.setattr(Label, "act", refuse)
    scene.finish()
    monkeypatch.setattr(Label, "act", original)
    scene.parcel.refresh_from_db()
    assert scene.parcel.stuck_at is not None

    assert not scene.worker().wake(scene.parcel, where={"wants_return": True})
    assert scene.worker().wake(scene.parcel, wants_return=True)
    scene.finish()
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, scene.parcel.stuck_at) == ("returned", None)


class RowWithATable(ParcelReconciler):
    moves: ClassVar[StateMachine[str]] = StateMachine(
        {"new": {"labelled"}, "labelled": {"boxed", "returned"}, "boxed": {"returned"}, "returned": set()}
    )


def test_a_wish_for_another_state_goes_by_the_kinds_table() -> None:
    scene = Scene()
    kernel = worker([RowWithATable(scene.world)], scene.clock)
    with pytest.raises(IllegalMove, match="from new to boxed"):
        kernel.interrupt(scene.parcel, to="boxed")
    assert not kernel.interrupt(scene.parcel, to="returned", where={"state": "labelled"})
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, scene.parcel.fence) == ("new", 0)

    Parcel.objects.filter(pk=scene.parcel.pk).update(state="labelled")
    assert not kernel.interrupt(scene.parcel, to="labelled"), "it has left the state that was read"
    assert kernel.interrupt(scene.parcel, to="returned", where={"state": "labelled"})
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, scene.parcel.fence) == ("returned", 1)


def test_what_is_not_stuck_is_not_tried_again() -> None:
    scene = Scene()
    assert not scene.worker().try_again(scene.parcel, actor=ANN, reason="")


def test_a_doubt_that_did_not_happen_is_done_now_and_is_answered_once() -> None:
    scene = Scene()
    scene.world.remembers_postings = False
    ours = scene.worker()

    def die_before_posting(name: str) -> None:
        if name == "intended" and scene.parcel.pk and len(scene.world.boxes) == 1:
            raise Crash

    doomed = scene.worker()
    doomed.checkpoint = die_before_posting
    with pytest.raises(Crash):
        doomed.sweep()
    scene.clock.pass_(LEASE_AND_A_BIT)
    scene.finish()
    (doubt,) = ours.doubts(scene.parcel)
    assert (doubt.step, scene.world.postings) == ("post", [])

    assert not ours.answer(scene.parcel, "another", happened=False, actor=ANN, reason="")
    assert ours.answer(scene.parcel, doubt.op_key, happened=False, actor=ANN, reason="The bag is full.")
    assert not ours.answer(scene.parcel, doubt.op_key, happened=True, actor=ANN, reason="")
    scene.world.remembers_postings = True
    scene.finish()
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, len(scene.world.postings)) == ("posted", 1)


def test_a_worker_that_lost_its_row_writes_no_doubt() -> None:
    scene = Scene()
    scene.world.remembers_postings = False
    doomed = scene.worker()

    def die_after_posting(name: str) -> None:
        if name == "acted" and scene.world.postings:
            raise Crash

    doomed.checkpoint = die_after_posting
    with pytest.raises(Crash):
        doomed.sweep()
    scene.clock.pass_(LEASE_AND_A_BIT)
    ours = scene.worker()

    late = scene.worker()
    wishes = [True]

    def is_called_back(name: str) -> None:
        if name == "intended" and wishes:
            ours.interrupt(scene.parcel, wants_return=wishes.pop())

    late.checkpoint = is_called_back
    late.sweep()
    assert not ours.doubts(scene.parcel).exists()
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "returned"
