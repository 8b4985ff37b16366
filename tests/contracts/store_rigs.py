"""Every kind of store, with what a test has to do to it behind its back, and what it does to all alike."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from model_store.backends.base import BlobStore, Ingested, Staging
from model_store.backends.bucket.store import BucketStore
from model_store.backends.local import LocalStore
from model_store.backends.location import BucketLocation
from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from tests.models_registry.builders import sha256

if TYPE_CHECKING:
    from tests.model_store.s3_server import S3Server

PART_BYTES = 256 * 1024


class Rig(Protocol):
    store: BlobStore

    def again(self) -> BlobStore:
        """The same store, as another process sees it."""

    def spoil(self, name: str, content: bytes) -> None:
        """Replace the bytes of a blob."""

    def stored(self) -> set[str]:
        """The sha256s of all bytes that the store holds, and the names of whatever else it has not let go."""


class LocalRig:
    def __init__(self, directory: Path) -> None:
        self.store = LocalStore(directory / "store")

    def again(self) -> BlobStore:
        return LocalStore(self.store.root)

    def spoil(self, name: str, content: bytes) -> None:
        blob = self.store.blob_path(name)
        blob.chmod(0o644)
        blob.write_bytes(content)

    def stored(self) -> set[str]:
        found = [path for path in self.store.root.rglob("*") if path.is_file()]
        return {sha256(path.read_bytes()) for path in found if path.parent.name != "locks"}


class BucketRig:
    """`node` is where this machine keeps its cache."""

    _made = 0

    def __init__(self, server: S3Server, node: Path, *, lease_seconds: float = 30) -> None:
        BucketRig._made += 1
        self.server = server
        self.bucket = f"models-{os.getpid()}-{BucketRig._made}"
        self.place = BucketLocation(
            self.bucket, node, 0, prefix="slipway/", endpoint=server.url, path_style=True
        )
        self._lease_seconds = lease_seconds
        server.client.create_bucket(Bucket=self.bucket)
        self.store = self.again()

    def again(self) -> BucketStore:
        return BucketStore(self.place, part_bytes=PART_BYTES, lease_seconds=self._lease_seconds)

    def body_key(self, name: str) -> str:
        record = self.store._record(name)
        assert record is not None
        return f"slipway/bodies/{record[0]}"

    def spoil(self, name: str, content: bytes) -> None:
        self.server.client.put_object(Bucket=self.bucket, Key=self.body_key(name), Body=content)

    def stored(self) -> set[str]:
        keys = {key.removeprefix("slipway/") for key in self.server.keys(self.bucket)}
        bodies = {key for key in keys if key.startswith("bodies/")}
        found = {sha256(self.store._bucket.get(key)[0]) for key in bodies}
        records = {key for key in keys if key.startswith("blobs/") and key.split("/")[2][:64] in found}
        return found | (keys - bodies - records) | set(self.server.uploads(self.bucket))


def nothing(_: Collection[str]) -> set[str]:
    return set()


def everything(blobs: Collection[str]) -> set[str]:
    return set(blobs)


def take(staging: Staging, tmp_path: Path, content: bytes, *, size: int | None = None) -> Ingested:
    source = tmp_path / "source"
    source.write_bytes(content)
    descriptor = os.open(source, os.O_RDONLY)
    try:
        return staging.take(descriptor, len(content) if size is None else size, counted=lambda _: None)
    finally:
        os.close(descriptor)


def published(store: BlobStore, tmp_path: Path, files: dict[str, bytes], key: str = "1") -> FileManifest:
    with store.staging(key) as staging:
        manifest = manifest_of(
            ManifestFile(path, len(content), take(staging, tmp_path, content).sha256)
            for path, content in files.items()
        )
    store.publish(key, manifest)
    store.discard(key, is_referenced=everything)
    return manifest


def read(store: BlobStore, name: str) -> bytes:
    with store.opened(name) as content:
        return content.read_at(0, content.size)


def files_of(directory: Path) -> dict[str, bytes]:
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}
