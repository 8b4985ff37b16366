"""A database that was restored: the world has seen what it does not know of."""

import pytest
from django.utils import timezone

from common.models import Intent, Restoration
from common.reconcile.restored import outlive_lost_time
from tests.crash.harness import run_until_rest
from tests.toys.models import Parcel, ParcelHistory
from tests.toys.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    """Backed up when nothing had been done, lost when all had."""
    scene = Scene()
    backup = Parcel.objects.filter(pk=scene.parcel.pk).values().get()
    scene.finish()
    assert len(scene.world.postings) == 1
    ParcelHistory.objects.all().delete()
    Intent.objects.all().delete()
    Parcel.objects.filter(pk=scene.parcel.pk).update(**backup)
    kernel = scene.worker()
    restoration = Restoration(made_at=timezone.now(), name="then", audit_seq=0)
    outlive_lost_time(restoration, leap=lambda _: None, kernel=kernel)
    return scene


def test_what_goes_on_is_heeded_and_repeats_nothing_that_cannot_be_undone(scene: Scene):
    scene.finish()
    scene.parcel.refresh_from_db()
    assert scene.parcel.state == "posted"
    assert len(scene.world.postings) == 1
    assert scene.world.boxes_refused == 0


def test_where_nobody_remembers_a_person_is_asked(scene: Scene):
    scene.world.remembers_postings = False
    run_until_rest(ours := scene.worker(), scene.clock)
    scene.parcel.refresh_from_db()
    assert scene.parcel.stuck_at is not None
    assert ours.doubts(scene.parcel).exists()
    assert len(scene.world.postings) == 1
