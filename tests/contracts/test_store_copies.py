"""Files of every store, to a directory of backups and into a store again."""

import os

import pytest

from controlplane.backup.blob_copies import copy_in, copy_out
from controlplane.backup.errors import BackupError
from controlplane.backup.layout import blob_place
from model_store.backends.local import LocalStore
from tests.contracts.store_rigs import nothing, published, read
from tests.models_registry.builders import sha256

pytestmark = pytest.mark.process
FILES = {"small": b"content", "large": os.urandom(5 * 1024 * 1024 + 3), "empty": b""}


def test_what_is_held_is_copied_and_comes_back_into_another_store(store, tmp_path) -> None:
    manifest = published(store, tmp_path, FILES)
    blobs = {file.sha256: file.size for file in manifest.files}
    with store.staging("backup") as staging:
        assert all(staging.hold(digest, size) for digest, size in blobs.items())
        store.reclaim(blobs, is_referenced=nothing)
        copied: list[int] = []
        (tmp_path / "copies/blobs").mkdir(parents=True)
        assert copy_out(staging, blobs, tmp_path / "copies", copied=copied.append) == []
        assert sorted(copied) == sorted(map(len, FILES.values()))
        assert copy_out(staging, blobs, tmp_path / "copies", copied=copied.append) == []
        assert len(copied) == len(FILES)
    places = {digest: blob_place(digest) for digest in blobs}
    other = LocalStore(tmp_path / "other")
    with other.staging("restore") as staging:
        assert copy_in(staging, places, tmp_path / "copies") == sum(map(len, FILES.values()))
    other.publish("restore", manifest)
    assert [read(other, sha256(content)) for content in FILES.values()] == list(FILES.values())


def test_a_damaged_copy_is_refused(tmp_path) -> None:
    digest = sha256(b"content")
    place = tmp_path / blob_place(digest)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"another")
    with (
        LocalStore(tmp_path / "other").staging("restore") as staging,
        pytest.raises(BackupError, match="is damaged"),
    ):
        copy_in(staging, {digest: blob_place(digest)}, tmp_path)
