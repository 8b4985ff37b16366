"""Checks of the store: what is damaged or missing is found, moved aside, named, and fetched again."""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from accounts.actors import of_user
from common import audit
from common.actor import Actor
from common.events import witness
from common.models import AuditRecord
from model_store import services as model_store
from model_store.backends import local
from model_store.errors import BlobMissing, RunUnderWay, WrongRunState
from model_store.events import BlobRepaired
from model_store.models import Check, CorruptBlob
from model_store.processes import store_scrub
from model_store.reconcilers.checks import StoreCheckReconciler
from model_store.reconcilers.corrupt_blobs import CorruptBlobReconciler
from model_store.services import begin_check
from models_registry import files
from models_registry.models import Version
from models_registry.selectors import uploads, versions
from models_registry.services import versions as version_services
from tests import cast
from tests.crash.harness import LEASE_AND_A_BIT, Checkpoints, Crash, die, run_until_rest, worker
from tests.models_registry.conftest import Library

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

SYSTEM = Actor.system("test")
DAY = 86_400


def kernel_of(library: Library, checkpoints: Checkpoints | None = None):
    runner = library.runner
    return worker([StoreCheckReconciler(runner), CorruptBlobReconciler(runner)], library.clock, checkpoints)


def settled(library: Library) -> None:
    run_until_rest(kernel_of(library), library.clock)


def checked(library: Library) -> Check:
    begun = begin_check(actor=SYSTEM)
    settled(library)
    return Check.objects.get(pk=begun.pk)


def weights_of(version: Version) -> str:
    return version.files.get(path="model.safetensors").sha256


def damage(library: Library, version: Version) -> Path:
    """Turn a byte of the weights around, as a disk may."""
    blob = library.store.blob_path(weights_of(version))
    content = bytearray(blob.read_bytes())
    content[-1] ^= 0xFF
    blob.chmod(0o644)
    blob.write_bytes(bytes(content))
    return blob


def test_a_whole_store_has_no_findings(library, version) -> None:
    check = checked(library)
    assert (check.state, check.damaged, check.missing) == ("done", 0, 0)
    assert (check.blobs_done, check.blobs_total) == (5, 5)
    assert check.bytes_done == check.bytes_total == version.size_bytes
    assert not CorruptBlob.objects.exists()
    assert library.store.staging_keys() == []


def test_a_damaged_blob_is_moved_aside_and_comes_back_from_the_source(library, version) -> None:
    directory = files.materialise(version)
    blob = damage(library, version)
    broken = blob.read_bytes()
    check = checked(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert (check.damaged, corrupt_blob.state) == (1, "repaired")
    assert corrupt_blob.reason == "From the source of tiny:v1."
    assert "Its content has another sha256" in corrupt_blob.detail
    aside = list((library.store.root / "quarantine").iterdir())
    assert [path.read_bytes() for path in aside] == [broken]
    library.store.check(files.manifest_of(version))
    assert checked(library).damaged == 0
    assert files.materialise(version) == directory
    assert (directory / "model.safetensors").read_bytes() != broken
    found = AuditRecord.objects.get(action="finding.found")
    assert found.detail["versions"] == ["tiny:v1"]


def test_what_was_cut_short_shows_what_it_has_and_what_it_should_have(library, version) -> None:
    size = version.files.get(path="model.safetensors").size
    blob = damage(library, version)
    os.truncate(blob, 10)
    checked(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert (corrupt_blob.state, corrupt_blob.size) == ("repaired", size)
    assert corrupt_blob.detail.endswith(f"It has 10 bytes instead of {size:,}.")


def test_no_worker_that_starts_gets_a_file_that_is_known_to_be_damaged(library, version) -> None:
    directory = files.materialise(version)
    damage(library, version)
    (library.root / "model").rename(library.root / "elsewhere")
    checked(library)
    assert CorruptBlob.objects.get().state == "lost"
    assert not directory.exists()
    with pytest.raises(BlobMissing, match=r"safetensors of tiny:v1 is damaged. It could not be fetched"):
        files.materialise(version)
    CorruptBlob.objects.update(state="aside")
    with pytest.raises(BlobMissing, match=r"It is being fetched again\."):
        files.materialise(version)


def test_a_directory_whose_files_are_whole_stays_though_the_store_has_lost_one(library, version) -> None:
    directory = files.materialise(version)
    library.store.blob_path(weights_of(version)).unlink()
    (library.root / "model").rename(library.root / "elsewhere")
    checked(library)
    assert CorruptBlob.objects.get().state == "lost"
    assert files.materialise(version) == directory


@pytest.fixture
def left(library):
    """Return the remaining directories for each repair that was announced."""
    found: list[list[str]] = []

    def look(_event: BlobRepaired) -> None:
        found.append(list(library.store.materialised()))

    witness(BlobRepaired, look)
    return found


def test_a_repair_is_told_when_the_directories_that_showed_the_damage_are_gone(
    library, version, left
) -> None:
    files.materialise(version)
    damage(library, version)
    checked(library)
    assert left == [[]]


def test_what_is_lost_is_not_told_as_repaired(library, version, left) -> None:
    damage(library, version)
    (library.root / "model").rename(library.root / "elsewhere")
    checked(library)
    assert (CorruptBlob.objects.get().state, left) == ("lost", [])


def test_what_no_source_has_any_more_is_lost_and_its_versions_are_damaged(library, model, version) -> None:
    damage(library, version)
    source = library.root / "model"
    source.rename(library.root / "elsewhere")
    checked(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert corrupt_blob.state == "lost"
    assert "is not there" in corrupt_blob.reason
    assert versions.damages(version) == [corrupt_blob]
    (library.root / "elsewhere").rename(source)
    root = cast.person("root", superuser=True)
    model_store.retry_repair(actor=of_user(root), corrupt_blob=corrupt_blob, reason="It is back.")
    settled(library)
    corrupt_blob.refresh_from_db()
    assert corrupt_blob.state == "repaired"
    assert versions.damages(version) == []
    with pytest.raises(WrongRunState):
        model_store.retry_repair(actor=of_user(root), corrupt_blob=corrupt_blob)


def test_what_is_lost_comes_back_when_the_same_files_are_imported_again(
    library, actor, model, version
) -> None:
    damage(library, version)
    source = library.root / "model"
    source.rename(library.root / "elsewhere")
    checked(library)
    (library.root / "elsewhere").rename(source)
    another = library.ready(actor, model, "model")
    settled(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert (corrupt_blob.state, corrupt_blob.reason) == ("repaired", "Another import brought it.")
    assert versions.damages(version) == versions.damages(another) == []


def test_what_is_lost_stays_missing_in_every_check_until_it_is_back(library, version) -> None:
    damage(library, version)
    blob = library.store.blob_path(weights_of(version))
    (library.root / "model").rename(library.root / "elsewhere")
    first = checked(library)
    assert (first.damaged, first.missing) == (1, 0)
    second = checked(library)
    assert (second.damaged, second.missing) == (0, 1)
    blob.write_bytes(b"\x07" * version.files.get(path="model.safetensors").size)
    third = checked(library)
    assert (third.damaged, third.missing) == (1, 0)
    assert CorruptBlob.objects.get().state == "lost"
    shutil.copy(library.root / "elsewhere" / "model.safetensors", blob)
    fourth = checked(library)
    assert (fourth.damaged, fourth.missing) == (0, 0)
    assert CorruptBlob.objects.get().state == "repaired"


def test_what_is_damaged_has_to_be_uploaded_again(library, actor, version) -> None:
    contents = {file.sha256: file.size for file in version.files.all()}
    assert uploads.seen_contents(actor, contents) == set(contents)
    damage(library, version)
    (library.root / "model").rename(library.root / "elsewhere")
    checked(library)
    assert uploads.seen_contents(actor, contents) == set(contents) - {weights_of(version)}


def test_a_source_that_holds_something_else_by_now_repairs_nothing(library, version) -> None:
    blob = damage(library, version)
    library.directory(fill=b"\x09")
    checked(library)
    corrupt_blob = CorruptBlob.objects.get()
    assert corrupt_blob.state == "lost"
    assert "other content" in corrupt_blob.reason
    assert not blob.exists()
    assert library.store.staging_keys() == []


def test_a_missing_blob_comes_back_from_the_source_of_another_version(library, actor, model, version) -> None:
    other = library.ready(actor, model, "other")
    shutil.rmtree(library.root / "model")
    library.store.blob_path(weights_of(version)).unlink()
    check = checked(library)
    assert (check.damaged, check.missing) == (0, 1)
    corrupt_blob = CorruptBlob.objects.get()
    assert (corrupt_blob.state, corrupt_blob.tried) == ("repaired", [version.pk])
    assert corrupt_blob.reason == f"From the source of {other}."
    library.store.check(files.manifest_of(version))


def test_a_damaged_blob_that_no_version_needs_is_only_moved_aside(library, actor, version) -> None:
    damage(library, version)
    version_services.delete_version(actor=actor, version=version)
    library.settle()
    checked(library)
    assert CorruptBlob.objects.get().state == "unneeded"
    assert library.collect().deleted_blobs == 4


@pytest.mark.slow
def test_a_check_and_a_repair_survive_a_crash_at_any_point(library, version) -> None:
    point = 0
    while True:
        point += 1
        damage(library, version)
        begin_check(actor=SYSTEM)
        checkpoints = Checkpoints(at=point, then=die)
        kernel = kernel_of(library, checkpoints)
        try:
            run_until_rest(kernel, library.clock)
        except Crash:
            library.clock.pass_(LEASE_AND_A_BIT)
        else:
            break
        settled(library)
        assert not Check.objects.running().exists()
        assert CorruptBlob.objects.count() == point
        assert set(CorruptBlob.objects.values_list("state", flat=True)) == {"repaired"}
        library.store.check(files.manifest_of(version))
        assert library.store.staging_keys() == []
    assert point > 20
    assert audit.verify().intact


def test_one_check_runs_at_a_time(library) -> None:
    begin_check(actor=SYSTEM)
    with pytest.raises(RunUnderWay):
        begin_check(actor=SYSTEM)


def test_a_check_reads_no_faster_than_it_is_told(library, version) -> None:
    slept: list[float] = []
    began = time.monotonic()
    one = store_scrub.StoreChecker(
        library.store, bytes_per_second=1_000, report=lambda _: None, sleep=slept.append
    )
    one.run(None)
    expected = version.size_bytes / 1_000
    assert expected - (time.monotonic() - began) <= max(slept) <= expected


def test_a_check_goes_on_with_the_part_in_which_it_was(library, version) -> None:
    whole = store_scrub.StoreChecker(library.store, bytes_per_second=10**9, report=lambda _: None).run(None)
    blobs = sorted(file.sha256 for file in files.manifest_of(version).files)
    place = int(blobs[2][:2], 16)
    seen: list[str] = []

    class Watched(store_scrub.StoreChecker):
        def _check(self, sha256: str) -> store_scrub.BlobDamage | None:
            seen.append(sha256)
            return super()._check(sha256)

    before = store_scrub.CheckProgress(place, 0, 0, 0, 0)
    again = Watched(library.store, bytes_per_second=10**9, report=lambda _: None).run(before)
    assert seen == blobs[2:]
    assert again == whole


def test_a_blob_that_cannot_be_read_is_damaged(library, version, monkeypatch) -> None:
    def fails(*_: object) -> int:
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(os, "preadv", fails)
    found = store_scrub.StoreChecker(library.store, bytes_per_second=10**9, report=lambda _: None).run(None)
    assert {damage.detail for damage in found.damages} == {"It cannot be read: Input/output error."}


def test_a_file_that_took_the_place_of_a_damaged_one_is_not_moved_aside(library, version) -> None:
    sha256 = weights_of(version)
    inode = library.store.blob_path(sha256).stat().st_ino
    library.store.quarantine(sha256, mark=str(inode + 1))
    library.store.check(files.manifest_of(version))
    library.store.quarantine(sha256, mark=str(inode))
    library.store.quarantine(sha256, mark=str(inode))
    assert [path.name for path in (library.store.root / "quarantine").iterdir()] == [f"{sha256}.{inode}"]
    assert not library.store.blob_path(sha256).exists()


def test_a_collection_clears_away_what_checks_and_repairs_of_no_row_have_left(library, version) -> None:
    running = begin_check(actor=SYSTEM)
    for key in (running.staging_key, "check-99", "repair-99", "99", "somebody-elses"):
        with library.store.staging(key):
            pass
    library.collect()
    assert library.store.staging_keys() == [running.staging_key, "somebody-elses"]


def test_a_damaged_file_is_kept_for_a_time_and_for_good_while_its_content_is_lost(
    library, actor, model, version, settings, monkeypatch
) -> None:
    def aside() -> list[Path]:
        return list((library.store.root / "quarantine").iterdir())

    damage(library, version)
    (library.root / "model").rename(library.root / "elsewhere")
    checked(library)
    (flawed,) = aside()
    size = flawed.stat().st_size
    settings.SLIPWAY_STORE_QUARANTINE_DAYS = 2
    tomorrow, in_two_days = time.time() + DAY, time.time() + 2 * DAY
    monkeypatch.setattr(local, "time", SimpleNamespace(time=lambda: in_two_days))
    library.collect()
    assert aside() == [flawed], "nothing has taken its place"
    (library.root / "elsewhere").rename(library.root / "model")
    library.ready(actor, model, "model")
    settled(library)
    settings.SLIPWAY_STORE_QUARANTINE_DAYS = 0
    library.collect()
    assert aside() == [flawed], "it is to be kept for good"
    settings.SLIPWAY_STORE_QUARANTINE_DAYS = 2
    monkeypatch.setattr(local, "time", SimpleNamespace(time=lambda: tomorrow))
    library.collect()
    assert aside() == [flawed], "it is not old enough"
    monkeypatch.setattr(local, "time", SimpleNamespace(time=lambda: in_two_days))
    done = library.collect()
    assert (aside(), done.deleted_blobs, done.deleted_bytes) == ([], 1, size)
