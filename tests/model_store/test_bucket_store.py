"""The store in a bucket, besides what holds of every store: its faults, its races and the node's cache."""

import os
import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from model_store.backends.bucket import client
from model_store.backends.bucket.client import BucketClient
from model_store.backends.bucket.store import BucketStore
from model_store.backends.location import BucketLocation
from model_store.backends.opening import opened_at
from model_store.errors import BlobMissing, StagingBusy, StoreUnavailable
from model_store.file_manifest import ManifestFile, manifest_of
from tests.contracts.store_rigs import (
    PART_BYTES,
    BucketRig,
    everything,
    files_of,
    nothing,
    published,
    read,
    take,
)
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.process

BIG = os.urandom(2 * PART_BYTES + 7)


@pytest.fixture
def rig(s3, tmp_path: Path) -> BucketRig:
    s3.requests.clear()
    return BucketRig(s3, tmp_path / "node")


def store_at(rig: BucketRig, **changes) -> BucketStore:
    return BucketStore(replace(rig.place, **changes), part_bytes=PART_BYTES)


def test_an_address_makes_the_same_store_again(rig) -> None:
    place = replace(rig.place, region="eu-central-1", cache_limit_bytes=5, cache=Path("/a b/ü?&"))
    assert opened_at(place.address).place == place
    assert "secret" not in place.address


def test_what_is_wrong_with_the_bucket_is_told_in_words_that_name_the_setting(rig, monkeypatch) -> None:
    with pytest.raises(StoreUnavailable, match=r"There is no bucket nowhere.*SLIPWAY_STORE"):
        store_at(rig, bucket="nowhere").look()
    with pytest.raises(StoreUnavailable, match=r"cannot be reached.*SLIPWAY_STORE_ENDPOINT"):
        store_at(rig, endpoint="http://127.0.0.1:1").look()
    for code, words in [
        ("AccessDenied", "may not do list_objects_v2 .* docs/STORE.md"),
        ("SignatureDoesNotMatch", "does not know our credentials"),
    ]:
        rig.server.refuse_with = code
        with pytest.raises(StoreUnavailable, match=words) as refused:
            next(rig.store.walk(), None)
        assert "test-secret" not in str(refused.value)
        rig.server.refuse_with = ""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreUnavailable, match=r"There are no credentials.*AWS_ACCESS_KEY_ID"):
        store_at(rig, region="us-west-2").look()


def test_a_server_that_ignores_conditions_is_refused(rig) -> None:
    rig.server.ignores_conditions = True
    try:
        with pytest.raises(StoreUnavailable, match="ignores conditions"):
            rig.store.look()
    finally:
        rig.server.ignores_conditions = False
    look = rig.store.look()
    assert (look.kind, look.where) == ("bucket", f"s3://{rig.bucket}/slipway/")
    assert rig.stored() == set()


def test_a_server_that_is_overloaded_or_breaks_off_is_asked_again(rig, tmp_path, monkeypatch) -> None:
    rig.server.busy_for = 2
    manifest = published(rig.store, tmp_path, {"w": BIG})
    rig.server.cut_for = 3
    assert files_of(rig.store.materialise(manifest)) == {"w": BIG}
    assert rig.server.cut_for == 0
    rig.server.busy_for = 100
    monkeypatch.setattr(client, "TRIES", 2)
    with pytest.raises(StoreUnavailable, match="overloaded and has refused 2 times"):
        store_at(rig, region="eu-west-1").check(manifest)
    rig.server.busy_for = 0


def test_a_file_is_taken_over_when_it_is_what_was_vouched_for(rig, tmp_path) -> None:
    path, counted = tmp_path / "w", []
    path.write_bytes(BIG)
    with rig.store.staging("1") as staging:
        assert not staging.take_over(path, sha256(b"other"), len(BIG), counted=counted.append)
        assert not staging.take_over(path, sha256(BIG), 5, counted=counted.append)
        assert rig.stored() == {"staging/1/lease"}
        assert sum(counted) == 0
        assert staging.take_over(path, sha256(BIG), len(BIG), counted=counted.append)
        assert sum(counted) == len(BIG)
        with staging.opened(sha256(BIG)) as held:
            assert held.read_at(0, len(BIG)) == BIG
        path.write_bytes(BIG[::-1])
        assert not staging.take_over(path, sha256(BIG), len(BIG), counted=counted.append)
        assert sum(counted) == len(BIG)


def test_a_publication_moves_no_bytes(rig, tmp_path) -> None:
    with rig.store.staging("1") as staging:
        taken = take(staging, tmp_path, BIG)
    rig.server.requests.clear()
    rig.store.publish("1", manifest_of([ManifestFile("w", len(BIG), taken.sha256)]))
    assert [one.split()[0] for one in rig.server.requests] == ["GET", "GET", "HEAD", "GET", "PUT"]


def test_what_an_import_holds_is_deleted_when_it_has_let_go(rig, tmp_path) -> None:
    published(rig.store, tmp_path, {"w": BIG})
    with rig.store.staging("2") as staging:
        assert staging.hold(sha256(BIG), len(BIG))
    assert rig.store.reclaim([sha256(BIG)], is_referenced=nothing).blobs == 0
    rig.store.discard("2", is_referenced=everything)
    assert rig.store.reclaim([sha256(BIG)], is_referenced=nothing).blobs == 1
    assert rig.stored() == set()


def test_a_publication_after_references_were_asked_for_saves_the_blob(rig, tmp_path) -> None:
    manifest = published(rig.store, tmp_path, {"a": b"same"})

    def asked(_: Collection[str]) -> set[str]:
        published(rig.again(), tmp_path, {"b": b"same"}, key="2")
        return set()

    assert rig.store.reclaim([sha256(b"same")], is_referenced=asked).blobs == 0
    assert read(rig.store, sha256(b"same")) == b"same"
    rig.store.check(manifest)


class Overtaken(BucketClient):
    """Somebody else does this first, once it has read a record and before it writes it."""

    def __init__(self, place: BucketLocation, first: Callable[[], object]) -> None:
        super().__init__(place)
        self._first = [first]

    def put(self, key: str, data: bytes, **condition: Any) -> str:
        if key.startswith("blobs/") and self._first:
            self._first.pop()()
        return super().put(key, data, **condition)


def test_what_is_deleted_while_it_is_taken_hold_of_is_held_by_nobody(rig, tmp_path) -> None:
    published(rig.store, tmp_path, {"w": b"content"})
    overtaken = Overtaken(rig.place, lambda: rig.again().reclaim([sha256(b"content")], is_referenced=nothing))
    with BucketStore(rig.place, part_bytes=PART_BYTES, bucket=overtaken).staging("2") as staging:
        assert not staging.hold(sha256(b"content"), 7)
    rig.store.discard("2", is_referenced=nothing)
    assert rig.stored() == set()


def test_of_two_who_take_hold_of_a_content_at_once_both_hold_it(rig, tmp_path) -> None:
    published(rig.store, tmp_path, {"w": b"content"})
    with rig.again().staging("2") as theirs:
        overtaken = Overtaken(rig.place, lambda: theirs.hold(sha256(b"content"), 7))
        with BucketStore(rig.place, part_bytes=PART_BYTES, bucket=overtaken).staging("3") as ours:
            assert ours.hold(sha256(b"content"), 7)
    rig.store.discard("3", is_referenced=everything)
    assert rig.store.reclaim([sha256(b"content")], is_referenced=nothing).blobs == 0
    assert read(rig.store, sha256(b"content")) == b"content"


def test_a_writer_that_sleeps_past_its_lease_finds_that_it_is_too_late(rig, tmp_path) -> None:
    content = BIG * 3

    def sleep_past_the_lease(read_bytes: int) -> None:
        if read_bytes and not taken_over:
            taken_over.append(True)
            rig.server.client.delete_object(Bucket=rig.bucket, Key="slipway/staging/1/lease")
            with rig.again().staging("1") as successor:
                assert take(successor, tmp_path / "other", b"theirs").copied_bytes == 6

    taken_over: list[bool] = []
    (tmp_path / "other").mkdir()
    (tmp_path / "w").write_bytes(content)
    with (
        pytest.raises(StagingBusy, match="taken over"),
        rig.store.staging("1") as staging,
        (tmp_path / "w").open("rb") as file,
    ):
        staging.take(file.fileno(), len(content), counted=sleep_past_the_lease)
    with rig.again().staging("1") as staging:
        assert staging.hold(sha256(b"theirs"), 6)
        assert not staging.hold(sha256(content), len(content))
    rig.store.discard("1", is_referenced=nothing)
    assert rig.stored() == set()


@pytest.mark.parametrize("rounds", [pytest.param(40, marks=pytest.mark.slow), 2])
def test_imports_and_deletions_of_one_content_at_once_lose_nothing(rig, tmp_path, rounds: int) -> None:
    content, needed_by, faults = b"wanted and not wanted", set[str](), []
    over = threading.Event()

    def is_referenced(blobs: Collection[str]) -> set[str]:
        return set(blobs) if needed_by else set()

    def imports(key: str) -> None:
        place = tmp_path / key
        place.mkdir()
        try:
            for _ in range(rounds):
                store = rig.again()
                with store.staging(key) as staging:
                    taken = take(staging, place, content)
                manifest = manifest_of([ManifestFile("a", taken.size, taken.sha256)])
                needed_by.add(key)
                store.publish(key, manifest)
                store.discard(key, is_referenced=is_referenced)
                store.check(manifest)
                assert read(store, taken.sha256) == content
                needed_by.discard(key)
        except BaseException as error:
            faults.append(error)

    def deletes() -> None:
        while not over.is_set():
            rig.again().reclaim([sha256(content)], is_referenced=is_referenced)

    importers = [threading.Thread(target=imports, args=(key,)) for key in ("1", "2", "3")]
    deleters = [threading.Thread(target=deletes) for _ in range(2)]
    for thread in (*importers, *deleters):
        thread.start()
    for thread in importers:
        thread.join()
    over.set()
    for thread in deleters:
        thread.join()
    assert faults == []
    rig.store.reclaim([sha256(content)], is_referenced=nothing)
    assert rig.stored() == set()


def test_a_writer_that_was_asked_to_stop_leaves_the_intake_to_the_next(rig) -> None:
    with rig.store.staging("1") as staging:
        rig.again().ask_to_stop("1")
        assert staging.is_unwanted()
        staging.leave()
        with rig.again().staging("1"):
            assert rig.again().is_busy("1")


def test_a_node_keeps_what_it_has_read_and_reads_it_again_when_it_is_damaged(rig, tmp_path) -> None:
    manifest = published(rig.store, tmp_path, {"w": BIG})
    directory = rig.store.materialise(manifest)
    assert rig.store.look().cache_bytes == rig.store.come_bytes(manifest) == len(BIG)
    rig.store.dematerialise(manifest.digest)
    rig.server.requests.clear()
    rig.store.materialise(manifest)
    assert not [one for one in rig.server.requests if one.startswith("GET") and "/bodies/" in one]
    rig.store.dematerialise(manifest.digest)
    cached = next((rig.place.cache / "cache").rglob(sha256(BIG)))
    cached.chmod(0o644)
    cached.write_bytes(BIG[:-1] + b"!")
    assert files_of(rig.store.materialise(manifest)) == {"w": BIG}
    assert directory.is_dir()


def test_a_fetch_that_was_cut_goes_on_where_it_was_and_believes_nothing(rig, tmp_path) -> None:
    manifest = published(rig.store, tmp_path, {"w": BIG})
    coming = rig.place.cache / "cache" / f".coming-{sha256(BIG)}"
    coming.parent.mkdir(parents=True)
    coming.write_bytes(BIG[:PART_BYTES])
    rig.server.requests.clear()
    rig.store.materialise(manifest)
    assert len([one for one in rig.server.requests if one.startswith("GET") and "/bodies/" in one]) == 2
    rig.store.dematerialise(manifest.digest)
    next((rig.place.cache / "cache").rglob(sha256(BIG))).unlink()
    coming.write_bytes(b"!" * PART_BYTES)
    assert files_of(rig.store.materialise(manifest)) == {"w": BIG}
    rig.spoil(sha256(BIG), BIG[::-1])
    rig.store.dematerialise(manifest.digest)
    next((rig.place.cache / "cache").rglob(sha256(BIG))).unlink()
    with pytest.raises(BlobMissing, match="check the store"):
        rig.store.materialise(manifest)
    assert rig.store.materialised() == {}


def test_a_full_cache_lets_go_of_what_was_used_longest_ago_and_is_in_no_version(rig, tmp_path) -> None:
    store = store_at(rig, cache_limit_bytes=3_000)
    one, two, three, four = [
        published(rig.store, tmp_path, {"w": bytes([number]) * 1_000}, key=str(number)) for number in range(4)
    ]
    for manifest in (one, two, three):
        store.materialise(manifest)
    for manifest in (two, one):
        store.dematerialise(manifest.digest)
    # Used again, so that it is not the oldest any more.
    store.materialise(one)
    store.dematerialise(one.digest)
    store.materialise(four)
    assert [store.come_bytes(manifest) for manifest in (one, two, three, four)] == [1_000, 0, 1_000, 1_000]
    assert sorted(store.materialised()) == sorted([three.digest, four.digest])
