"""Processes that import to a bucket, or delete from it, die at any call: nothing is lost or half visible."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from model_store.backends.bucket.client import BucketClient
from model_store.backends.bucket.store import BucketStore
from model_store.backends.location import BucketLocation
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from tests.contracts.store_rigs import PART_BYTES, BucketRig, everything, published, read, take
from tests.model_store.test_bucket_store import BIG, rig
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.process

__all__ = ["rig"]


class Death(BaseException):
    """The process is gone."""


class Mortal(BucketClient):
    """Reaches the bucket so many times, then never again."""

    def __init__(self, place: BucketLocation, calls: int) -> None:
        super().__init__(place)
        self.calls = calls

    @contextmanager
    def _told(self, operation: str) -> Iterator[None]:
        self.calls -= 1
        if self.calls < 0:
            raise Death
        with super()._told(operation):
            yield


def mortal(rig: BucketRig, calls: int) -> BucketStore:
    return BucketStore(rig.place, part_bytes=PART_BYTES, bucket=Mortal(rig.place, calls))


def survivor(rig: BucketRig) -> BucketStore:
    """Return the store as a process sees it after the lease of the dead one."""
    return BucketStore(rig.place, part_bytes=PART_BYTES, lease_seconds=-1)


FILES = {"kept": b"kept", "small": b"small", "big": BIG}


def import_all(store: BucketStore, tmp_path: Path) -> FileManifest:
    """A file that the store has, a small one, a large one, one that comes in pieces; published, let go."""
    pieces = BIG[::-1]
    with store.staging("7") as staging:
        found = {name: take(staging, tmp_path, content).sha256 for name, content in FILES.items()}
        if not staging.hold(sha256(pieces), len(pieces)):
            with staging.part("x", len(pieces)) as part:
                part.append(pieces[part.done :])
                staging.complete(part, sha256(pieces))
        staging.write_note("result", b"{}")
    files = [ManifestFile(name, len(FILES[name]), found[name]) for name in FILES]
    manifest = manifest_of([*files, ManifestFile("pieces", len(pieces), sha256(pieces))])
    store.publish("7", manifest)
    store.discard("7", is_referenced=everything)
    return manifest


def nothing_is_half_visible(store: BucketStore) -> None:
    for _, blobs in store.walk():
        for name in blobs:
            assert store.verify(name, counted=lambda _: None) is None


def deaths_in(play: Callable[[BucketStore], object], rig: BucketRig, *, every: int) -> Iterator[int]:
    """Play it, dying at each call (or each so many) in turn, until it lives to its end."""
    calls = 0
    while True:
        try:
            play(mortal(rig, calls))
        except Death:
            yield calls
        else:
            return
        calls += every


SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 31])
def test_an_import_that_dies_at_any_call_leaves_nothing_or_all_of_it(rig, tmp_path, every: int) -> None:
    kept = published(rig.store, tmp_path, {"kept": b"kept"})
    whole = {sha256(content) for content in (*FILES.values(), BIG[::-1])}
    deaths = 0
    for calls in deaths_in(lambda store: import_all(store, tmp_path), rig, every=every):
        deaths += 1
        store = survivor(rig)
        nothing_is_half_visible(store)
        store.check(kept)
        if calls // every % 2:
            store.check(import_all(store, tmp_path))
            assert rig.stored() == whole
        for key in store.staging_keys():
            store.discard(key, is_referenced=everything)
        store.reclaim(whole, is_referenced=lambda blobs: {sha256(b"kept")} & set(blobs))
        assert rig.stored() == {sha256(b"kept")}
        store.check(kept)
    assert deaths > 60 / every


@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 3])
def test_a_deletion_that_dies_at_any_call_loses_nothing_and_is_ended_by_the_next(
    rig, tmp_path, every: int
) -> None:
    kept = published(rig.store, tmp_path, {"kept": b"kept"})
    needed = {sha256(b"kept")}

    def play(store: BucketStore) -> None:
        gone = published(rig.store, tmp_path, {"kept": b"kept", "gone": b"gone"}, key="8")
        store.reclaim({file.sha256 for file in gone.files}, is_referenced=needed.intersection)

    deaths = 0
    for calls in deaths_in(play, rig, every=every):
        deaths += 1
        rig.store.check(kept)
        if calls % 2:
            # Imported again by somebody before the deletion is ended.
            again = published(rig.store, tmp_path, {"gone": b"gone"}, key="9")
            rig.store.check(again)
            assert read(rig.store, sha256(b"gone")) == b"gone"
        rig.store.reclaim([sha256(b"gone"), sha256(b"kept")], is_referenced=needed.intersection)
        assert rig.stored() == needed
    assert deaths >= 6 / every
