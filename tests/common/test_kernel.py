"""The kernel keeps its promises under every crash and every pause of its workers."""

import secrets
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import models, transaction
from django.test.utils import isolate_apps

from common.actor import Actor
from common.models import Intent
from common.reconcile import Kernel, NotOutside, Operation, Reconciled, wait
from common.reconcile import kernel as process_kernel
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die
from tests.toys.parcels import Label, ParcelReconciler, World
from tests.toys.scene import Scene

pytestmark = pytest.mark.django_db

ANN = Actor(name="ann", user_id=1, via="web")


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


@isolate_apps("tests.toys")
def test_rows_that_put_a_column_of_their_own_in_the_place_of_the_kernels_are_refused() -> None:
    class Crate(Reconciled):
        origin = models.CharField(max_length=10)

        class Meta(Reconciled.Meta):
            app_label = "toys"

        def __str__(self) -> str:
            return "crate"

    class CrateReconciler(ParcelReconciler):
        kind, model = "toys.crate", Crate

    with pytest.raises(ValueError, match=r"toys\.crate: the kernel keeps the column 'origin'"):
        Scene().worker().register(CrateReconciler(World()))


@pytest.mark.django_db(transaction=True)
def test_a_step_is_not_taken_inside_a_transaction() -> None:
    scene = Scene()
    with pytest.raises(NotOutside), transaction.atomic():
        scene.worker().advance("toys.parcel", scene.parcel.pk)
    scene.parcel.refresh_from_db()
    assert (scene.parcel.fence, scene.world.label) == (0, (0, ""))
    assert scene.worker().advance("toys.parcel", scene.parcel.pk) == 3


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
