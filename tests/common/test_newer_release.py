"""While processes are replaced: what only the next release knows is left to it."""

from datetime import timedelta

import pytest

from common import tasks
from common.reconcile import Kernel, NotKnownHere, Step
from tests.crash.harness import worker
from tests.toys.models import Parcel
from tests.toys.parcels import ParcelReconciler
from tests.toys.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


class OfToday(ParcelReconciler):
    """A reconciler that does not know how to box."""

    def next_step(self, row, now) -> Step[Parcel] | None:
        step = super().next_step(row, now)
        if step is not None and step.name == "box":
            raise NotKnownHere.step("box")
        return step

    def lane_of(self, row) -> str:
        self.next_step(row, self.world)
        return ""


@pytest.fixture
def scene() -> Scene:
    return Scene()


def of_today(scene: Scene) -> Kernel:
    return worker([OfToday(scene.world)], scene.clock)


def test_a_step_of_the_next_release_is_left_to_it_for_as_long_as_it_takes(scene: Scene):
    today = of_today(scene)
    for _ in range(30):
        today.sweep()
        scene.clock.pass_(timedelta(seconds=2))
    scene.parcel.refresh_from_db()
    assert (scene.parcel.state, scene.parcel.stuck_at) == ("labelled", None)
    assert "newer release" in scene.parcel.last_error
    assert scene.parcel.attempts == 0
    scene.finish()
    scene.check()
    scene.parcel.refresh_from_db()
    assert scene.parcel.last_error == ""


def test_one_that_knows_it_is_not_kept_from_it_by_those_that_do_not(scene: Scene):
    """Each row is first in somebody's share; what has been due for long is anybody's."""
    today, after = of_today(scene), scene.worker()
    today.sweep()
    due_since = Parcel.objects.get().next_at
    for _ in range(12):
        scene.clock.pass_(timedelta(seconds=0.25))
        today.sweep()
    assert Parcel.objects.get().next_at == due_since
    (row,) = after.due(own_for=timedelta(seconds=2))
    assert row.is_anybodys


def test_a_kind_of_row_of_the_next_release_and_its_doorbell_disturb_nobody(scene: Scene):
    assert of_today(scene).advance("later.kind", 7) == 0
    tasks.advance("later.kind", 7, lane="", urgency=3)
