"""The contract of every store: each content once, whole or not at all, never taken from under an import."""

import os
import threading
from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.backends.base import Ingested
from model_store.errors import BlobMissing, SourceChanged, StagingBusy
from model_store.file_manifest import ManifestFile, manifest_of
from tests.contracts.store_rigs import (
    BucketRig,
    LocalRig,
    everything,
    files_of,
    nothing,
    published,
    read,
    take,
)
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.process

BIG = 3 * 1024 * 1024 + 7


def test_a_file_is_hashed_while_it_is_copied_and_read_back_as_it_was(store, tmp_path) -> None:
    content = os.urandom(BIG)
    counted: list[int] = []
    source = tmp_path / "source"
    source.write_bytes(content)
    with store.staging("1") as staging, source.open("rb") as file:
        taken = staging.take(file.fileno(), BIG, counted=counted.append)
        assert taken == Ingested(sha256(content), BIG, copied_bytes=BIG)
        assert sum(counted) == BIG
        with staging.opened(taken.sha256) as held:
            assert held.read_at(5, 10) == content[5:15]
            assert held.read_at(0, BIG + 1) == content
    store.publish("1", manifest_of([ManifestFile("w", BIG, taken.sha256)]))
    assert read(store, taken.sha256) == content


def test_nothing_is_visible_before_it_is_published(store, tmp_path) -> None:
    with store.staging("1") as staging:
        taken = take(staging, tmp_path, b"content")
    manifest = manifest_of([ManifestFile("a", 7, taken.sha256)])
    with pytest.raises(BlobMissing):
        store.check(manifest)
    with pytest.raises(BlobMissing), store.opened(taken.sha256):
        pass
    assert list(store.walk()) == []
    store.publish("1", manifest)
    store.publish("1", manifest)
    store.check(manifest)
    assert read(store, taken.sha256) == b"content"
    part = int(taken.sha256[:2], 16)
    assert list(store.walk()) == list(store.walk(part)) == [(part, {taken.sha256: 7})]
    assert list(store.walk(part + 1)) == []


@pytest.mark.parametrize("size", [0, 1, 1000, BIG])
def test_content_seen_before_is_not_copied(store, tmp_path, size: int) -> None:
    content = os.urandom(size)
    manifest = published(store, tmp_path, {"a": content})
    with store.staging("2") as staging:
        assert take(staging, tmp_path, content) == Ingested(sha256(content), size, copied_bytes=0)
        with staging.opened(sha256(content)) as held:
            assert held.read_at(0, size) == content
    store.publish("2", manifest)
    store.check(manifest)


def test_the_same_content_twice_in_one_import_is_kept_once(store, tmp_path) -> None:
    content = os.urandom(BIG)
    with store.staging("1") as staging:
        assert take(staging, tmp_path, content).copied_bytes == BIG
        assert take(staging, tmp_path, content).copied_bytes == 0


def test_content_that_differs_only_between_the_samples_is_still_kept_as_itself(store, tmp_path) -> None:
    content = bytearray(os.urandom(BIG))
    published(store, tmp_path, {"a": bytes(content)})
    content[BIG // 16] ^= 1
    counted: list[int] = []
    source = tmp_path / "source"
    source.write_bytes(content)
    with store.staging("2") as staging, source.open("rb") as file:
        taken = staging.take(file.fileno(), BIG, counted=counted.append)
        assert taken == Ingested(sha256(bytes(content)), BIG, copied_bytes=BIG)
    assert sum(counted) == BIG


def test_a_file_that_is_longer_or_shorter_than_listed_is_not_kept(rig, store, tmp_path) -> None:
    with store.staging("1") as staging:
        for content, size in [(b"12345", 4), (b"123", 4), (b"1" * BIG, BIG - 1), (b"1" * BIG, BIG + 1)]:
            with pytest.raises(SourceChanged):
                take(staging, tmp_path, content, size=size)
    assert rig.stored() == set()


def test_what_an_earlier_process_has_completed_is_held_by_the_next(store, tmp_path) -> None:
    with store.staging("1") as staging:
        taken = take(staging, tmp_path, b"content")
    store.ask_to_stop("1")
    with store.staging("1") as staging:
        assert not staging.is_unwanted()
        with staging.opened(taken.sha256) as held:
            assert held.read_at(0, 10) == b"content"
        assert take(staging, tmp_path, b"content").copied_bytes == 0


def test_what_an_intake_holds_can_be_published_by_whoever_knows_only_its_key(store, tmp_path) -> None:
    assert store.held("1") == {}
    with store.staging("1") as staging:
        assert not staging.has_begun()
        taken = take(staging, tmp_path, b"content")
        assert staging.has_begun()
    assert store.held("1") == {taken.sha256: 7}
    store.publish("1", manifest_of([ManifestFile("a", 7, taken.sha256)]))
    assert read(store, taken.sha256) == b"content"


def test_whoever_writes_an_intake_can_be_asked_to_stop(store) -> None:
    store.ask_to_stop("1")
    assert store.staging_keys() == []
    with store.staging("1") as staging:
        store.ask_to_stop("1")
        assert staging.is_unwanted()


def test_one_intake_has_one_writer(rig, store) -> None:
    other = rig.again()
    with store.staging("1"):
        assert other.is_busy("1")
        with pytest.raises(StagingBusy), other.staging("1"):
            pass
        with pytest.raises(StagingBusy):
            other.discard("1", is_referenced=nothing)
        assert not other.is_busy("2")
    assert not other.is_busy("1")


def test_notes_are_whole_and_go_with_the_intake(store) -> None:
    assert store.read_note("1", "result") is None
    with store.staging("1") as staging:
        staging.write_note("result", b"one")
        staging.write_note("result", b"two")
    assert store.read_note("1", "result") == b"two"
    assert store.staging_keys() == ["1"]
    store.discard("1", is_referenced=nothing)
    assert store.read_note("1", "result") is None
    assert store.staging_keys() == []


def test_a_file_that_comes_in_pieces_goes_on_in_the_next_process(rig) -> None:
    content = os.urandom(BIG)
    with rig.store.staging("1") as staging, staging.part("w", BIG) as part:
        for start in range(0, BIG // 2, 100_000):
            part.append(content[start : start + 100_000])
    with rig.again().staging("1") as staging:
        with staging.part("w", BIG) as part:
            assert BIG // 3 < part.done < BIG
            assert b"".join(part.read_back()) == content[: part.done]
            part.append(content[part.done :])
            assert part.done == BIG
            staging.complete(part, sha256(content))
        with staging.opened(sha256(content)) as held:
            assert held.read_at(0, BIG) == content
        with staging.part("again", BIG) as part:
            part.append(b"1" * BIG)
            part.restart()
            assert part.done == 0
    manifest = manifest_of([ManifestFile("w", BIG, sha256(content))])
    rig.store.publish("1", manifest)
    rig.store.discard("1", is_referenced=everything)
    assert rig.stored() == {sha256(content)}


def test_what_is_held_already_is_found_by_what_git_calls_it(store, tmp_path) -> None:
    published(store, tmp_path, {"a": b"hello\n", "b": b"world\n"})
    with store.staging("2") as staging:
        assert staging.hold_blob_id("ce013625030ba8dba906f756967f9e9ca394464a", 6) == sha256(b"hello\n")
        assert staging.hold_blob_id("0" * 40, 6) is None
        assert not staging.hold("0" * 64, 6)


def test_discarding_takes_back_what_was_published_but_that_nothing_refers_to(rig, store, tmp_path) -> None:
    kept = published(store, tmp_path, {"kept": b"kept"})
    with store.staging("2") as staging:
        files = [
            ManifestFile(name, 4, take(staging, tmp_path, name.encode()).sha256) for name in ("kept", "lost")
        ]
        take(staging, tmp_path, b"never published")
    store.publish("2", manifest_of(files))
    reclaimed = store.discard("2", is_referenced=lambda blobs: {sha256(b"kept")} & set(blobs))
    assert (reclaimed.blobs, reclaimed.bytes) == (1, 4)
    store.check(kept)
    assert rig.stored() == {sha256(b"kept")}
    assert store.discard("2", is_referenced=nothing).blobs == 0


def test_deleting_a_blob_takes_nothing_from_an_import_that_has_seen_it(rig, store, tmp_path) -> None:
    content = os.urandom(BIG)
    published(store, tmp_path, {"a": content})
    with store.staging("2") as staging:
        taken = take(staging, tmp_path, content)
    store.reclaim([taken.sha256], is_referenced=nothing)
    manifest = manifest_of([ManifestFile("a", BIG, taken.sha256)])
    store.publish("2", manifest)
    assert read(store, taken.sha256) == content
    store.discard("2", is_referenced=nothing)
    store.reclaim([taken.sha256], is_referenced=nothing)
    assert rig.stored() == set()


def test_a_publication_while_references_are_asked_for_is_not_deleted(rig, store, tmp_path) -> None:
    published(store, tmp_path, {"a": b"same"})
    with store.staging("2") as staging:
        taken = take(staging, tmp_path, b"same")
    manifest = manifest_of([ManifestFile("a", 4, taken.sha256)])
    publisher = threading.Thread(target=rig.again().publish, args=("2", manifest))

    def asked(_: Collection[str]) -> set[str]:
        publisher.start()
        publisher.join(0.2)
        return set()

    store.reclaim([taken.sha256], is_referenced=asked)
    if publisher.ident is None:
        # A store that keeps what a staging area holds has not even asked.
        publisher.start()
    publisher.join(60)
    store.check(manifest)


def test_publishing_what_the_intake_lacks_is_told(store) -> None:
    with store.staging("1"):
        pass
    with pytest.raises(BlobMissing, match="retry"):
        store.publish("1", manifest_of([ManifestFile("a", 1, "0" * 64)]))


def test_a_version_is_materialised_under_its_own_names(rig, store, tmp_path) -> None:
    files = {"config.json": b"{}", "deep/er/w": b"w", "again": b"w", "big": os.urandom(BIG)}
    manifest = published(store, tmp_path, files)
    directory = store.materialise(manifest)
    assert files_of(directory) == files
    assert (directory / "deep/er/w").stat().st_ino == (directory / "again").stat().st_ino
    assert (directory / "big").stat().st_mode & 0o777 == 0o444
    assert rig.again().is_at_hand(manifest)
    assert rig.again().materialise(manifest) == directory
    assert list(store.materialised()) == [manifest.digest]


def test_a_materialised_version_that_was_tampered_with_is_made_anew(store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"a", "b": b"b"})
    directory = store.materialise(manifest)
    (directory / "a").unlink()
    (directory / "evil.py").write_text("import os")
    assert store.materialise(manifest) == directory
    assert files_of(directory) == {"a": b"a", "b": b"b"}
    assert list(store.materialised()) == [manifest.digest]


def test_a_version_that_misses_a_blob_is_not_materialised(store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"a", "b": b"b"})
    store.reclaim([sha256(b"a")], is_referenced=nothing)
    with pytest.raises(BlobMissing, match="of a "):
        store.materialise(manifest)
    assert store.materialised() == {}


def test_many_materialise_at_once_and_each_gets_the_whole(rig, store, tmp_path) -> None:
    manifest = published(store, tmp_path, {f"d/{number}": bytes([number]) for number in range(12)})
    stale = store.materialise(manifest).parent / ".making-dead"
    store.dematerialise(manifest.digest)
    stale.mkdir()
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(files_of(rig.again().materialise(manifest)))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [12] * 4
    assert list(store.materialised()) == [manifest.digest]
    assert not stale.exists()


def test_dematerialising_removes_the_directory_and_no_blob(store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"a"})
    directory = store.materialise(manifest)
    store.dematerialise(manifest.digest)
    store.dematerialise(manifest.digest)
    assert not directory.exists()
    store.check(manifest)


contents = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d/e", "d/f"]), st.sampled_from([b"", b"1", b"22", b"23"]), min_size=1
)


@pytest.mark.parametrize("kind", ["directory", pytest.param("bucket", marks=pytest.mark.slow)])
@settings(max_examples=15, deadline=None)
@given(imports=st.lists(st.tuples(contents, st.booleans()), max_size=4))
def test_the_store_holds_exactly_what_the_published_versions_need(
    tmp_path_factory, request, kind, imports
) -> None:
    root = tmp_path_factory.mktemp("property")
    rig = LocalRig(root) if kind == "directory" else BucketRig(request.getfixturevalue("s3"), root)
    store, needed = rig.store, set[str]()
    for number, (files, is_kept) in enumerate(imports):
        with store.staging(str(number)) as staging:
            manifest = manifest_of(
                ManifestFile(path, len(content), take(staging, root, content).sha256)
                for path, content in files.items()
            )
        store.publish(str(number), manifest)
        if is_kept:
            needed |= {file.sha256 for file in manifest.files}
        store.discard(str(number), is_referenced=needed.intersection)
    assert rig.stored() == needed
