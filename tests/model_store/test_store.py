"""The store in a directory, besides what holds of every store: see tests/contracts/test_stores.py."""

import errno
import os
import threading
from collections.abc import Collection
from pathlib import Path

import pytest

from model_store.backends import ingest as taking
from model_store.backends import local, local_staging
from model_store.backends.base import Ingested
from model_store.errors import BlobMissing, StoreFull
from model_store.file_manifest import ManifestFile, manifest_of
from model_store.reading import OpenFile
from tests.contracts.store_rigs import published, take
from tests.models_registry.builders import sha256

BIG = 3 * 1024 * 1024 + 7


def all_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.parent.name != "locks")


def test_a_published_file_lies_read_only_under_its_hash(store, tmp_path) -> None:
    published(store, tmp_path, {"w": b"content"})
    blob = store.blob_path(sha256(b"content"))
    assert blob.read_bytes() == b"content"
    assert blob.stat().st_mode & 0o777 == 0o444
    assert blob.parent.parent.parent == store.root / "blobs"


@pytest.mark.parametrize("size", [0, 1, 1000, BIG])
def test_content_seen_before_is_linked_and_not_copied(store, tmp_path, size: int) -> None:
    content = os.urandom(size)
    published(store, tmp_path, {"a": content})
    with store.staging("2") as staging:
        taken = take(staging, tmp_path, content)
        assert taken == Ingested(sha256(content), size, copied_bytes=0)
    held = store.root / "incoming/2" / taken.sha256
    assert held.stat().st_ino == store.blob_path(taken.sha256).stat().st_ino


def test_content_of_the_same_size_is_told_apart_by_samples_and_read_once(
    store, tmp_path, monkeypatch
) -> None:
    published(store, tmp_path, {"a": os.urandom(BIG)})
    hashed: list[int] = []
    original = taking.read_through
    monkeypatch.setattr(taking, "read_through", lambda *args, **kw: hashed.append(1) or original(*args, **kw))
    with store.staging("2") as staging:
        assert take(staging, tmp_path, os.urandom(BIG)).copied_bytes == BIG
    assert len(hashed) == 1


def test_too_little_space_is_told_before_a_byte_is_copied(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(store, "free_bytes", lambda: local_staging.SPARE_BYTES + 10)
    with store.staging("1") as staging:
        staging.check_space(10)
        with pytest.raises(StoreFull, match=r"1,234 bytes are missing") as full:
            staging.check_space(1244)
        assert full.value.missing_bytes == 1234
        with pytest.raises(StoreFull):
            take(staging, tmp_path, b"x" * 11)
    assert all_files(store.root) == []


def test_a_disk_that_fills_up_in_mid_copy_leaves_no_partial_file(store, tmp_path, monkeypatch) -> None:
    original, written = os.write, []

    def full(descriptor: int, data: bytes) -> int:
        written.append(len(data))
        if sum(written) > 1024 * 1024:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(descriptor, data)

    with store.staging("1") as staging:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(StoreFull, match="model store is full"):
            take(staging, tmp_path, os.urandom(BIG))
        monkeypatch.undo()
        assert all_files(store.root) == []


def test_left_overs_of_a_dead_import_go_when_the_next_one_begins_and_whole_files_stay(
    store, tmp_path
) -> None:
    with store.staging("1") as staging:
        taken = take(staging, tmp_path, os.urandom(BIG))
    (store.root / "incoming/1/.part-dead").write_bytes(b"half")
    with store.staging("1") as staging:
        assert not (store.root / "incoming/1/.part-dead").exists()
        with staging.opened(taken.sha256) as held:
            assert held.size == BIG


def test_no_publication_happens_between_asking_for_references_and_deleting(store, tmp_path) -> None:
    published(store, tmp_path, {"a": b"same"})
    with store.staging("2") as staging:
        taken = take(staging, tmp_path, b"same")
    manifest = manifest_of([ManifestFile("a", 4, taken.sha256)])
    publisher = threading.Thread(target=store.publish, args=("2", manifest))

    def asked(_: Collection[str]) -> set[str]:
        publisher.start()
        publisher.join(0.2)
        assert publisher.is_alive(), "it published in between"
        return set()

    store.reclaim([taken.sha256], is_referenced=asked)
    publisher.join(60)
    store.check(manifest)


def test_a_large_version_is_at_hand_once_it_has_been_read(store, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(local, "AT_ONCE_BYTES", 1)
    manifest = published(store, tmp_path, {"w": b"weights"})
    assert not store.is_at_hand(manifest)
    store.materialise(manifest)
    assert store.is_at_hand(manifest)


def test_a_materialised_version_is_read_again_once_somebody_has_written_to_it(store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"w": b"signed", "v": b"v"})
    directory = store.materialise(manifest)
    blob = store.blob_path(sha256(b"signed"))
    blob.chmod(0o644)
    blob.write_bytes(b"forged")
    with pytest.raises(BlobMissing, match="is damaged"):
        store.materialise(manifest)
    blob.write_bytes(b"signed")
    assert store.materialise(manifest) == directory
    inode = (directory / "w").stat().st_ino
    assert store.materialise(manifest) == directory
    (directory / "w").unlink()
    (directory / "w").write_bytes(b"forged")
    assert (store.materialise(manifest) / "w").stat().st_ino == inode


def test_a_version_is_materialised_by_hard_links_under_its_own_names(store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"config.json": b"{}", "deep/er/w": b"w"})
    directory = store.materialise(manifest)
    assert directory == store.root / "versions" / manifest.digest
    assert (directory / "deep/er/w").stat().st_ino == store.blob_path(sha256(b"w")).stat().st_ino


def test_a_file_with_as_many_links_as_allowed_is_copied_into_the_version(
    store, tmp_path, monkeypatch
) -> None:
    manifest = published(store, tmp_path, {"a": b"a"})

    def full(*_, **__) -> None:
        raise OSError(errno.EMLINK, "Too many links")

    monkeypatch.setattr(os, "link", full)
    assert (store.materialise(manifest) / "a").read_bytes() == b"a"


def test_an_open_descriptor_reads_no_further_than_its_size() -> None:
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    try:
        content = OpenFile(descriptor, 10)
        assert content.read_at(8, 100) == b"\0\0"
        assert content.read_at(20, 5) == b""
    finally:
        os.close(descriptor)


def test_a_file_of_our_own_is_taken_over_without_a_copy_if_it_is_what_it_should_be(store, tmp_path) -> None:
    path = tmp_path / "home/spool/content"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    digest = sha256(b"content")
    counted: list[int] = []
    with store.staging("1") as staging:
        assert staging.take_over(path, "0" * 64, 7, counted=counted.append) is False
        assert staging.take_over(path, digest, 8, counted=counted.append) is False
        assert sum(counted) == 0
        assert path.stat().st_nlink == 1
        assert staging.take_over(path, digest, 7, counted=counted.append) is True
        with staging.opened(digest) as content:
            assert content.read_at(0, 9) == b"content"
        with pytest.raises(FileNotFoundError):
            staging.take_over(path.with_name("gone"), digest, 7, counted=counted.append)
    assert (sum(counted), path.stat().st_nlink) == (7, 2)
