"""What the kernel makes of steps that fail, end their process, or find their work gone."""

from datetime import timedelta

import pytest

from common.actor import Actor
from common.errors import Unavailable
from common.models import AuditRecord
from common.reconcile import again
from common.reconcile.trouble import TroubledRow, troubled
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, die, dies, run_until_rest
from tests.toys.models import Parcel
from tests.toys.parcels import Box, Label, ParcelReconciler, moved
from tests.toys.scene import Scene

pytestmark = pytest.mark.django_db

ANN = Actor(name="ann", user_id=1, via="web")


def test_a_failing_step_backs_off_and_is_stuck_after_five_attempts_with_the_reason(monkeypatch) -> None:
    scene = Scene()

    def refuse(self, row, operation) -> None:
        raise RuntimeError("the printer is on fire")

    monkeypatch.setattr(Label, "act", refuse)
    due_after = []
    for _ in range(5):
        scene.worker().sweep()
        scene.parcel.refresh_from_db()
        due_after.append((scene.parcel.next_at - scene.clock()).total_seconds())
        scene.clock.pass_(timedelta(minutes=1))
    assert due_after[:4] == [1, 2, 4, 8]
    assert scene.parcel.stuck_at is not None
    assert scene.parcel.last_error == "RuntimeError: the printer is on fire"
    assert AuditRecord.objects.filter(action="parcel.stuck", reason__contains="printer").count() == 1
    assert scene.worker().sweep() == 0


def test_a_step_whose_world_does_not_answer_waits_for_it_and_is_never_stuck(monkeypatch) -> None:
    scene = Scene()
    original = Label.act

    def refuse(self, row, operation) -> None:
        raise Unavailable("the printer is off")

    monkeypatch.setattr(Label, "act", refuse)
    began, due_after = scene.clock(), []
    for _ in range(9):
        scene.worker().sweep()
        scene.parcel.refresh_from_db()
        due_after.append((scene.parcel.next_at - scene.clock()).total_seconds())
        scene.clock.at = scene.parcel.next_at
    assert due_after == [1, 1, 2, 4, 8, 16, 32, 60, 60]
    assert (scene.parcel.stuck_at, scene.parcel.last_error) == (None, "the printer is off")
    assert scene.parcel.failed_since == began
    monkeypatch.setattr(Label, "act", original)
    scene.worker().sweep()
    scene.parcel.refresh_from_db()
    assert (scene.parcel.attempts, scene.parcel.failed_since) == (0, None)


def test_what_did_not_answer_for_long_is_not_held_against_the_step_that_fails_then(monkeypatch) -> None:
    scene = Scene()
    errors = [*[Unavailable("the printer is off")] * 20, *[RuntimeError("no paper")] * 4]

    def refuse(self, row, operation) -> None:
        if errors:
            raise errors.pop(0)

    monkeypatch.setattr(Label, "act", refuse)
    while errors:
        assert scene.worker().sweep() == 1
        scene.parcel.refresh_from_db()
        scene.clock.at = scene.parcel.next_at
    scene.finish()
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, scene.parcel.stuck_at) == ("posted", None)


def test_one_poisoned_row_never_stops_the_rest(monkeypatch) -> None:
    scene = Scene()
    other = Parcel.objects.create(next_at=scene.clock() + timedelta(seconds=0))
    original = Label.act

    def refuse_one(self, row, operation) -> None:
        if row.pk == scene.parcel.pk:
            raise RuntimeError("poison")
        original(self, row, operation)

    monkeypatch.setattr(Label, "act", refuse_one)
    run_until_rest(scene.worker(), scene.clock)
    other.refresh_from_db()
    scene.parcel.refresh_from_db()
    assert other.state == "posted"
    assert scene.parcel.stuck_at is not None


def test_a_step_that_ends_its_process_each_time_is_stuck_in_the_end() -> None:
    scene = Scene()
    deaths = 0
    while deaths < 20 and dies(scene.worker(Checkpoints(at=2, then=die)), scene.clock):
        deaths += 1
    scene.parcel.refresh_from_db()
    assert deaths == ParcelReconciler.max_attempts
    assert scene.parcel.stuck_at is not None
    assert "ended in its midst" in scene.parcel.last_error
    assert AuditRecord.objects.filter(action="parcel.stuck").count() == 1

    assert scene.worker().try_again(scene.parcel, actor=ANN, reason="")
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "posted"


def test_deaths_are_counted_in_a_row_only() -> None:
    scene = Scene()
    for _ in range(ParcelReconciler.max_attempts - 1):
        assert dies(scene.worker(Checkpoints(at=2, then=die)), scene.clock)
    scene.finish()
    scene.parcel.refresh_from_db()
    assert (scene.parcel.stuck_at, scene.parcel.attempts, scene.parcel.last_error) == (None, 0, "")


def test_failures_and_deaths_by_turns_are_stuck_in_the_end_too(monkeypatch) -> None:
    scene = Scene()

    def refuse(self, row, operation) -> None:
        raise RuntimeError("no paper")

    monkeypatch.setattr(Label, "act", refuse)
    for turn in range(12):
        doomed = scene.worker(Checkpoints(at=2, then=die)) if turn % 2 else scene.worker()
        if not dies(doomed, scene.clock):
            scene.clock.pass_(timedelta(minutes=2))
    scene.parcel.refresh_from_db()
    assert scene.parcel.stuck_at is not None


def test_a_box_that_is_gone_is_made_anew_under_another_name(monkeypatch) -> None:
    scene = Scene()
    taken: list[str] = []

    def create(self, row, operation) -> None:
        self.world.boxes[operation.op_key] = operation.op_key
        if len(self.world.boxes) + len(taken) < 3:
            taken.append(operation.op_key)
            del self.world.boxes[operation.op_key]

    def settle(self, row, seen, now):
        return moved(row, self.to) if seen else again("The box is gone.")

    monkeypatch.setattr(Box, "act", create)
    monkeypatch.setattr(Box, "observe", lambda self, row, operation: operation.op_key in self.world.boxes)
    monkeypatch.setattr(Box, "settle", settle)
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "posted"
    assert len({*taken, *scene.world.boxes}) == 3


def test_what_is_gone_each_time_is_stuck_with_its_reason(monkeypatch) -> None:
    scene = Scene()
    monkeypatch.setattr(Box, "act", lambda self, row, operation: None)
    monkeypatch.setattr(Box, "settle", lambda self, row, seen, now: again("The box is gone."))
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.stuck_at is not None
    assert scene.parcel.last_error == "The box is gone."


def test_a_step_that_outlasts_its_lease_is_counted(caplog) -> None:
    scene = Scene()
    ours = scene.worker()
    ours.checkpoint = lambda name: (name == "observed" and scene.clock.pass_(LEASE_AND_A_BIT)) or None
    ours.advance("toys.parcel", scene.parcel.pk)
    assert ours.leases_run_out == 1
    assert f"toys.parcel {scene.parcel.pk} has outlasted its lease" in caplog.text


def test_what_is_stuck_or_has_failed_for_minutes_is_found_with_one_query(django_assert_num_queries) -> None:
    ours = Scene().worker()
    now = ours.clock()
    Parcel.objects.create(failed_since=now - timedelta(seconds=90))
    failing = Parcel.objects.create(failed_since=now - timedelta(minutes=3))
    stuck = Parcel.objects.create(failed_since=now - timedelta(minutes=1), stuck_at=now)
    with django_assert_num_queries(1):
        found = troubled(kernel=ours)
    assert found == [TroubledRow("toys.parcel", failing.pk), TroubledRow("toys.parcel", stuck.pk)]
