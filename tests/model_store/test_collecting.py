"""Collections delete what nothing has needed for the grace time, and nothing else, whatever happens."""

from datetime import timedelta

import pytest
from django.utils import timezone

from common import audit
from common.actor import Actor
from common.models import AuditRecord
from model_store.errors import RunUnderWay
from model_store.models import Check, Collection, StoreSchedule, UnreferencedBlob
from model_store.reconcilers.collections import CollectionReconciler
from model_store.reconcilers.maintenance import StoreScheduleReconciler
from model_store.services import begin_collection
from models_registry import files
from models_registry.models import Model, Version
from models_registry.services import imports, versions
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, die, dies, worker
from tests.models_registry.conftest import Library

pytestmark = pytest.mark.django_db

SYSTEM = Actor.system("test")
DAY = 86_400


@pytest.fixture
def kept(library: Library, actor: Actor, model: Model) -> Version:
    return library.ready(actor, model, "kept", fill=b"\x07")


def blobs_of(version: Version) -> dict[str, int]:
    return {file.sha256: file.size for file in files.manifest_of(version).files}


def deleted(library: Library, actor: Actor, model: Model, fill: bytes = b"\x01") -> dict[str, int]:
    """Delete a version; the blobs that it alone had."""
    version = library.ready(actor, model, "gone", fill=fill)
    versions.delete_version(actor=actor, version=version)
    library.settle()
    held = {sha256 for one in Version.objects.ready() for sha256 in blobs_of(one)}
    return {sha256: size for sha256, size in blobs_of(version).items() if sha256 not in held}


def test_what_a_deleted_version_held_goes_after_the_grace_time_and_is_counted(
    library, actor, model, kept
) -> None:
    library.clock.at = timezone.now()
    alone = deleted(library, actor, model)
    assert len(alone) == 1
    library.clock.pass_(timedelta(hours=23))
    early = library.collect(grace_seconds=DAY)
    assert (early.state, early.deleted_blobs, early.waiting_blobs) == ("done", 0, 1)
    assert alone.keys() <= library.stored()
    library.clock.pass_(timedelta(hours=1))
    late = library.collect(grace_seconds=DAY)
    assert (late.deleted_blobs, late.deleted_bytes) == (1, sum(alone.values()))
    assert (late.waiting_blobs, late.blobs) == (0, len(blobs_of(kept)))
    assert library.stored() == set(blobs_of(kept))
    assert not UnreferencedBlob.objects.exists()


def test_the_grace_time_begins_anew_when_a_later_version_is_deleted(library, actor, model) -> None:
    library.clock.at = timezone.now()
    alone = deleted(library, actor, model)
    library.collect(grace_seconds=DAY)
    UnreferencedBlob.objects.update(since=library.clock() - timedelta(days=2))
    assert deleted(library, actor, model) == alone
    assert library.collect(grace_seconds=DAY).deleted_blobs == 0
    assert alone.keys() <= library.stored()


def test_a_blob_that_is_needed_again_is_no_longer_counted_out(library, actor, model) -> None:
    alone = deleted(library, actor, model)
    library.ready(actor, model, "again", fill=b"\x01")
    assert library.collect().deleted_blobs == 0
    assert not UnreferencedBlob.objects.exists()
    assert alone.keys() <= library.stored()


def test_a_blob_that_nobody_knows_of_waits_from_the_moment_it_is_found(library, actor, model, kept) -> None:
    with library.store.staging("stray") as staging:
        path = library.root / "stray"
        path.write_bytes(b"stray")
        with path.open("rb") as file:
            taken = staging.take(file.fileno(), 5, counted=lambda _: None)
    blob = library.store.blob_path(taken.sha256)
    blob.parent.mkdir(exist_ok=True)
    (library.store.root / "incoming/stray" / taken.sha256).rename(blob)
    (library.store.root / "incoming/stray").rmdir()
    assert library.collect(grace_seconds=DAY).waiting_blobs == 1
    library.clock.pass_(timedelta(days=1))
    assert library.collect(grace_seconds=DAY).deleted_bytes == 5
    assert library.stored() == set(blobs_of(kept))


def test_a_directory_of_a_version_that_is_gone_is_removed(library, actor, model, kept) -> None:
    files.materialise(kept)
    lost = library.store.root / "versions" / ("0" * 64)
    lost.mkdir()
    (lost / "model.safetensors").write_bytes(b"x")
    library.collect()
    assert [path.name for path in lost.parent.iterdir()] == [kept.digest]


@pytest.mark.slow
def test_a_collection_survives_a_crash_at_any_point(library, actor, model, kept) -> None:
    point = 0
    while True:
        point += 1
        alone = deleted(library, actor, model, fill=bytes([100 + point]))
        begun = begin_collection(actor=SYSTEM, grace_seconds=0)
        kernel = worker([CollectionReconciler()], library.clock, Checkpoints(at=point, then=die))
        if not dies(kernel, library.clock):
            break
        row = library.collected(begun)
        assert (row.state, row.place) == ("done", 256)
        assert (row.deleted_blobs, row.deleted_bytes) == (len(alone), sum(alone.values()))
        assert library.stored() == set(blobs_of(kept))
        ended = AuditRecord.objects.filter(action="store.collected", subject_id=str(row.pk))
        assert ended.count() == 1
    assert point > 10
    assert audit.verify().intact


@pytest.mark.slow
def test_a_worker_that_sleeps_past_its_lease_deletes_nothing_any_more(library, actor, model, kept) -> None:
    point = 0
    while True:
        point += 1
        deleted(library, actor, model, fill=b"\x01")
        begun = begin_collection(actor=SYSTEM, grace_seconds=0)
        imported: list[Version] = []

        def others_go_on() -> None:
            library.clock.pass_(LEASE_AND_A_BIT)
            library.collected(begun)  # noqa: B023
            imported.append(library.ready(actor, model, "again", fill=b"\x01"))  # noqa: B023

        checkpoints = Checkpoints(at=point, then=others_go_on, outside=True)
        worker([CollectionReconciler()], library.clock, checkpoints).sweep()
        if not imported:
            break
        library.store.check(files.manifest_of(imported[0]))
        versions.delete_version(actor=actor, version=imported[0])
        library.settle()
        library.collect()
        assert library.stored() == set(blobs_of(kept))
    assert point > 10


@pytest.mark.slow
def test_an_import_at_any_point_of_a_collection_keeps_all_of_its_files(library, actor, model) -> None:
    """The content lies in the store, needed by nothing and due to go, when it is imported again."""
    point = 0
    while True:
        point += 1
        deleted(library, actor, model, fill=b"\x01")
        version = imports.import_version(actor=actor, model=model, source=str(library.directory("again")))
        begun: list[Collection] = []

        def collect(begun: list[Collection] = begun) -> None:
            begun.append(library.collect())

        checkpoints = Checkpoints(at=point, then=collect, outside=True)
        library.worker(checkpoints).sweep()
        library.settle()
        version = Version.objects.get(pk=version.pk)
        assert version.state == "ready", version.reason
        library.store.check(files.manifest_of(version))
        versions.delete_version(actor=actor, version=version)
        library.settle()
        if not begun:
            break
    assert point > 10


def test_one_collection_runs_at_a_time(library, actor) -> None:
    begin_collection(actor=SYSTEM)
    with pytest.raises(RunUnderWay, match="under way"):
        begin_collection(actor=SYSTEM)


def test_the_keeper_begins_a_collection_every_day(library) -> None:
    keeper = StoreSchedule.objects.get()
    StoreSchedule.objects.filter(pk=keeper.pk).update(next_at=library.clock(), collect_at=library.clock())
    kernel = worker([StoreScheduleReconciler(), CollectionReconciler()], library.clock)
    for day in range(1, 4):
        kernel.sweep()
        kernel.sweep()
        assert Collection.objects.filter(state="done").count() == day
        library.clock.pass_(timedelta(days=1))


def test_the_keeper_begins_a_check_every_few_days_if_it_is_told_to(library, settings) -> None:
    settings.SLIPWAY_STORE_CHECK_DAYS = 7
    running = begin_collection(actor=SYSTEM)
    kernel, now = worker([StoreScheduleReconciler()], library.clock), library.clock()
    StoreSchedule.objects.update(next_at=now, collect_at=now, check_at=now)
    kernel.sweep()
    check = Check.objects.get()
    assert (check.is_running, [one.pk for one in Collection.objects.all()]) == (True, [running.pk])
    assert StoreSchedule.objects.get().check_at == now + timedelta(days=7)
    Check.objects.update(state="done")
    settings.SLIPWAY_STORE_CHECK_DAYS = 0
    library.clock.pass_(timedelta(days=8))
    StoreSchedule.objects.update(next_at=library.clock())
    kernel.sweep()
    assert [one.pk for one in Check.objects.all()] == [check.pk]


def test_the_keeper_lets_a_collection_that_runs_go_on(library) -> None:
    begun = begin_collection(actor=SYSTEM)
    StoreSchedule.objects.update(next_at=library.clock(), collect_at=library.clock())
    worker([StoreScheduleReconciler()], library.clock).sweep()
    assert [one.pk for one in Collection.objects.all()] == [begun.pk]
