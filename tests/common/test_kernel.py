"""The kernel keeps its promises under every crash and every pause of its workers."""

import secrets
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import transaction

from common import audit
from common.actor import Actor
from common.errors import Unavailable
from common.models import AuditRecord, Intent
from common.reconcile import Kernel, NotOutside, Operation, again, proceed, wait
from common.reconcile import kernel as process_kernel
from common.reconcile.trouble import Troubled, troubled
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Clock, Crash, die, dies, run_until_rest, worker
from tests.toys.models import Parcel, ParcelHistory
from tests.toys.parcels import Box, Label, ParcelReconciler, World, moved

pytestmark = pytest.mark.django_db

ANN = Actor(name="ann", user_id=1, via="web")


class Scene:
    """One parcel in a fresh world, and the workers that move it."""

    def __init__(self, kernel: type[Kernel] = Kernel) -> None:
        self.kernel = kernel
        self.clock = Clock()
        self.world = World()
        self.parcel = Parcel.objects.create(next_at=self.clock())

    def worker(self, checkpoints: Checkpoints | None = None) -> Kernel:
        return worker([ParcelReconciler(self.world)], self.clock, checkpoints, self.kernel)

    def finish(self) -> None:
        run_until_rest(self.worker(), self.clock)

    def check(self) -> None:
        self.parcel.refresh_from_db()
        assert self.parcel.state == "posted"
        assert self.world.label[1] == "there"
        assert len(self.world.boxes) == 1
        assert self.world.boxes_refused == 0
        assert len(self.world.postings) == 1
        states = list(
            ParcelHistory.objects.filter(parcel_id=self.parcel.pk)
            .order_by("pk")
            .values_list("state", flat=True)
        )
        assert states == ["labelled", "boxed", "posted"]
        actions = (
            AuditRecord.objects.filter(subject_id=str(self.parcel.pk))
            .order_by("seq")
            .values_list("action", flat=True)
        )
        assert list(actions) == ["parcel.labelled", "parcel.boxed", "parcel.posted"]
        assert audit.verify().intact

    def clear(self) -> None:
        Parcel.objects.all().delete()
        ParcelHistory.objects.all().delete()
        Intent.objects.all().delete()


def crash_once_everywhere(kernel: type[Kernel] = Kernel) -> int:
    point = 0
    while True:
        point += 1
        scene = Scene(kernel)
        checkpoints = Checkpoints(at=point, then=die)
        try:
            scene.worker(checkpoints).sweep()
        except Crash:
            scene.clock.pass_(LEASE_AND_A_BIT)
            scene.finish()
            scene.check()
            scene.clear()
        else:
            return point - 1


def crash_twice_everywhere() -> int:
    first, runs = 0, 0
    while True:
        first += 1
        second = 0
        while True:
            second += 1
            scene = Scene()
            try:
                scene.worker(Checkpoints(at=first, then=die)).sweep()
                return runs
            except Crash:
                scene.clock.pass_(LEASE_AND_A_BIT)
            try:
                scene.worker(Checkpoints(at=second, then=die)).sweep()
                scene.clear()
                break
            except Crash:
                scene.clock.pass_(LEASE_AND_A_BIT)
            runs += 1
            scene.finish()
            scene.check()
            scene.clear()


def pause_everywhere(kernel: type[Kernel] = Kernel) -> int:
    """A worker falls asleep at a point for longer than its lease; another finishes; the first wakes up."""
    point = 0
    while True:
        point += 1
        scene = Scene(kernel)

        def others_finish(scene: Scene = scene) -> None:
            scene.clock.pass_(LEASE_AND_A_BIT)
            scene.finish()

        checkpoints = Checkpoints(at=point, then=others_finish, outside=True)
        scene.worker(checkpoints).sweep()
        if checkpoints.passed < point:
            return point - 1
        scene.check()
        scene.clear()


def test_a_crash_at_any_point_changes_nothing_in_the_end() -> None:
    assert crash_once_everywhere() >= 15


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_crashes_at_any_two_points_change_nothing_in_the_end() -> None:
    assert crash_twice_everywhere() >= 100


def test_a_worker_that_sleeps_past_its_lease_at_any_point_changes_nothing_in_the_end() -> None:
    assert pause_everywhere() >= 15


class WithoutFence(Kernel):
    """Mutant: writes whatever the fence says, and tells resources a fence that they never refuse."""

    def _hold(self, reconciler, row) -> None:
        pass

    def _write(self, reconciler, row, columns) -> None:
        reconciler.model._default_manager.filter(pk=row.pk).update(**columns)


class WithRandomOpKeys(Kernel):
    """Mutant: every attempt goes by another name."""

    def _make(self, reconciler, row, step, operation: Operation) -> None:
        super()._make(reconciler, row, step, replace(operation, op_key=secrets.token_hex(8)))


class WithoutJournal(Kernel):
    """Mutant: never looks whether the effect was begun before."""

    def _may_repeat(self, reconciler, row, step, operation, intent) -> bool:
        return True


def test_the_schedules_notice_a_kernel_that_ignores_the_fence() -> None:
    with pytest.raises(AssertionError):
        pause_everywhere(WithoutFence)


def test_the_schedules_notice_a_kernel_with_random_op_keys() -> None:
    with pytest.raises(AssertionError):
        crash_once_everywhere(WithRandomOpKeys)


def test_the_schedules_notice_a_kernel_that_skips_the_journal() -> None:
    with pytest.raises(AssertionError):
        crash_once_everywhere(WithoutJournal)


def test_a_fresh_claim_is_left_alone_by_other_workers() -> None:
    scene = Scene()
    with pytest.raises(Crash):
        scene.worker(Checkpoints(at=1, then=die)).sweep()
    assert scene.worker().advance("toys.parcel", scene.parcel.pk) == 0
    scene.clock.pass_(LEASE_AND_A_BIT)
    assert scene.worker().advance("toys.parcel", scene.parcel.pk) == 3


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


def test_a_repeated_absolute_step_journals_what_it_wants_now(monkeypatch) -> None:
    scene = Scene()
    wanted = iter(["here", "there", "there"])
    monkeypatch.setattr(Label, "intent", lambda self, row: {"to": next(wanted)})
    monkeypatch.setattr(Label, "settle", lambda self, row, seen, now: wait(timedelta(seconds=1)))
    for _ in range(3):
        scene.worker().sweep()
        scene.clock.pass_(timedelta(seconds=1))
    assert Intent.objects.get(step="label").wanted == {"to": "there"}


def test_a_second_reconciler_of_a_kind_is_refused() -> None:
    ours = Scene().worker()
    with pytest.raises(ValueError, match=r"toys\.parcel is registered already"):
        ours.register(ParcelReconciler(World()))


@pytest.mark.django_db(transaction=True)
def test_a_step_is_not_taken_inside_a_transaction() -> None:
    scene = Scene()
    with pytest.raises(NotOutside), transaction.atomic():
        scene.worker().advance("toys.parcel", scene.parcel.pk)
    scene.parcel.refresh_from_db()
    assert (scene.parcel.fence, scene.world.label) == (0, (0, ""))
    assert scene.worker().advance("toys.parcel", scene.parcel.pk) == 3


def test_a_step_that_outlasts_its_lease_is_counted(caplog) -> None:
    scene = Scene()
    ours = scene.worker()
    ours.checkpoint = lambda name: (name == "observed" and scene.clock.pass_(LEASE_AND_A_BIT)) or None
    ours.advance("toys.parcel", scene.parcel.pk)
    assert ours.leases_run_out == 1
    assert f"toys.parcel {scene.parcel.pk} has outlasted its lease" in caplog.text


def test_who_knows_an_old_fence_claims_nothing() -> None:
    scene = Scene()
    (due,) = scene.worker().due()
    with pytest.raises(Crash):
        scene.worker(Checkpoints(at=1, then=die)).sweep()
    scene.clock.pass_(LEASE_AND_A_BIT)
    assert scene.worker().advance(due.kind, due.id, fence=due.fence) == 0
    assert scene.worker().advance(due.kind, due.id) == 3


def test_the_kernel_of_the_process_knows_no_toys() -> None:
    assert "toys.parcel" not in process_kernel.kinds


def test_what_is_stuck_or_has_failed_for_minutes_is_found_with_one_query(django_assert_num_queries) -> None:
    ours = Scene().worker()
    now = ours.clock()
    Parcel.objects.create(failed_since=now - timedelta(seconds=90))
    failing = Parcel.objects.create(failed_since=now - timedelta(minutes=3))
    stuck = Parcel.objects.create(failed_since=now - timedelta(minutes=1), stuck_at=now)
    with django_assert_num_queries(1):
        found = troubled(kernel=ours)
    assert found == [Troubled("toys.parcel", failing.pk), Troubled("toys.parcel", stuck.pk)]
