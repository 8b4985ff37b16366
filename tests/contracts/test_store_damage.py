"""Damaged blobs in every store: nobody gets them, and they make way for whole ones."""

from datetime import timedelta

import pytest

from model_store.backends.base import Reclaimed
from model_store.errors import BlobMissing
from tests.contracts.store_rigs import published, read
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.process


def test_a_damaged_blob_of_another_size_is_replaced_by_a_whole_one(rig, store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"content"})
    rig.spoil(sha256(b"content"), b"cont")
    with pytest.raises(BlobMissing, match="4 bytes instead of 7"):
        store.check(manifest)
    published(store, tmp_path, {"b": b"content"}, key="2")
    store.check(manifest)
    assert read(store, sha256(b"content")) == b"content"
    assert rig.stored() == {sha256(b"content")}


def test_a_damaged_blob_is_named_and_set_aside_and_only_that_one(rig, store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"content", "b": b"other"})
    counted: list[int] = []
    assert store.verify(sha256(b"content"), counted=counted.append) is None
    assert sum(counted) == 7
    assert store.verify("0" * 64, counted=counted.append) is None
    rig.spoil(sha256(b"content"), b"CONTENT")
    flaw = store.verify(sha256(b"content"), counted=counted.append)
    assert flaw is not None
    assert "another sha256" in flaw.detail
    store.quarantine(sha256(b"content"), mark="something else")
    store.check(manifest)
    store.quarantine(sha256(b"content"), mark=flaw.mark)
    store.quarantine(sha256(b"content"), mark=flaw.mark)
    with pytest.raises(BlobMissing, match=r"of a .* is gone"):
        store.check(manifest)
    published(store, tmp_path, {"a": b"content"}, key="2")
    store.quarantine(sha256(b"content"), mark=flaw.mark)
    store.check(manifest)
    assert read(store, sha256(b"content")) == b"content"


def test_what_was_set_aside_goes_when_it_is_old_and_neither_wanted_nor_held(rig, store, tmp_path) -> None:
    def set_aside(content: bytes) -> None:
        rig.spoil(sha256(content), content.upper())
        flaw = store.verify(sha256(content), counted=lambda _: None)
        assert flaw is not None
        store.quarantine(sha256(content), mark=flaw.mark)

    def clear(keep: tuple[str, ...] = (), **age: float) -> Reclaimed:
        return store.clear_quarantine(older_than=timedelta(**age), keep=keep)

    assert clear() == Reclaimed(0, 0)
    published(store, tmp_path, {"a": b"old", "b": b"lost", "c": b"whole"})
    set_aside(b"old")
    set_aside(b"lost")
    assert clear(days=1) == Reclaimed(0, 0)
    assert clear(keep=(sha256(b"lost"),)) == Reclaimed(1, 3)
    assert clear() == Reclaimed(1, 4)
    assert clear() == Reclaimed(0, 0)
    assert rig.again().opened(sha256(b"whole"))
    assert {sha256(b"OLD"), sha256(b"LOST")}.isdisjoint(rig.stored())


def test_an_import_has_lost_what_was_set_aside_since_it_took_hold_of_it(rig, store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"w": b"content"})
    with store.staging("2") as staging:
        assert staging.hold(sha256(b"content"), 7)
    rig.spoil(sha256(b"content"), b"CONTENT")
    flaw = store.verify(sha256(b"content"), counted=lambda _: None)
    assert flaw is not None
    store.quarantine(sha256(b"content"), mark=flaw.mark)
    for _ in range(2):
        with pytest.raises(BlobMissing, match="retry"):
            store.publish("2", manifest)
    published(store, tmp_path, {"w": b"content"}, key="2")
    assert read(store, sha256(b"content")) == b"content"


def test_a_version_whose_content_was_changed_in_the_store_is_not_materialised(rig, store, tmp_path) -> None:
    manifest = published(store, tmp_path, {"a": b"signed", "b": b"b"})
    rig.spoil(sha256(b"signed"), b"forged")
    with pytest.raises(BlobMissing, match="is damaged"):
        store.materialise(manifest)
    assert store.materialised() == {}
