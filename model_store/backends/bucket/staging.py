"""Ingest files into the bucket: hashed while they are uploaded, uploaded only when they are new."""

import operator
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from model_store.backends.base import Counted, Ingested, PartialFile
from model_store.backends.bucket.bodies import BlobBody, BucketUpload, part_bytes_of
from model_store.backends.bucket.client import BucketClient, ObjectGone, side_by_side
from model_store.backends.bucket.lease import BucketLease
from model_store.backends.bucket.part import BucketPart
from model_store.backends.bucket.records import BlobRecords, body_key
from model_store.backends.ingest import Ingest, Read, Write, read_through, samples
from model_store.errors import StoreUnavailable
from model_store.reading import Content

LOOK_EVERY_SECONDS = 2.0
"""How often a writer asks whether it is wanted: every look is a request."""


class _UnexpectedContent(Exception):
    """The content is not the one that was vouched for."""


class BucketStaging(Ingest):
    """See `Staging`."""

    def __init__(
        self, bucket: BucketClient, records: BlobRecords, lease: BucketLease, key: str, *, part_bytes: int
    ) -> None:
        self._bucket = bucket
        self._records = records
        self._lease = lease
        self._key = key
        self._part_bytes = part_bytes
        self._held: dict[tuple[str, int], str] = {}
        self._sizes: dict[int, set[str]] | None = None
        self._lock = threading.Lock()
        self._looked = 0.0

    @property
    def _place(self) -> str:
        return f"staging/{self._key}/"

    def begin(self) -> None:
        """Clear away what an earlier process has begun and not ended, and find what it holds."""
        self._bucket.delete(self._place + "stop")
        self._bucket.abort_uploads(body_key(self._key) + ".")
        held = held_in(self._bucket, self._key)
        bodies = set(held.values())
        for body in begun_in(self._bucket, self._key):
            if body not in bodies:
                self._bucket.delete(body_key(body))
                self._bucket.delete(f"{self._place}begun/{body}")
        whole = side_by_side(lambda one: self._records.size_of(held[one]) == one[1], list(held))
        self._held = {one: held[one] for one, is_whole in zip(held, whole, strict=True) if is_whole}

    def check_space(self, new_bytes: int) -> None:
        """A bucket is never full."""

    def _take_new(self, size: int, read: Read) -> Ingested:
        upload = self._begun(size)
        with upload.streaming(part_bytes_of(size, self._part_bytes)) as write:
            sha256 = read(write)
        return self._keep(upload.body, sha256, size)

    def take_over(self, path: Path, sha256: str, size: int, *, counted: Counted) -> bool:
        with path.open("rb", buffering=0) as file:
            if os.fstat(file.fileno()).st_size != size:
                return False

            def read(write: Write) -> str:
                return read_through(file.fileno(), size, counted=counted, write=write)

            return self.take_read(read, sha256, size, counted=counted)

    def take_read(self, read: Read, sha256: str, size: int, *, counted: Counted) -> bool:
        """Hold what is read and counted, if it has this size and this sha256."""
        if self.hold(sha256, size):
            # Read all the same: that the store has it proves nothing of what came.
            is_same = read(lambda _: None) == sha256
            counted(0 if is_same else -size)
            return is_same
        upload = self._begun(size)
        try:
            with upload.streaming(part_bytes_of(size, self._part_bytes)) as write:
                if read(write) != sha256:
                    raise _UnexpectedContent
        except _UnexpectedContent:
            counted(-size)
            return False
        self._keep(upload.body, sha256, size)
        return True

    def _begun(self, size: int) -> BucketUpload:
        self._lease.check()
        return BucketUpload(self._bucket, self._key, size)

    def _keep(self, body: str, sha256: str, size: int) -> Ingested:
        """Hold a body of our own, unless another thread has brought the same content meanwhile."""
        with self._lock:
            is_first = self._held.setdefault((sha256, size), body) == body
        if not is_first:
            self._bucket.delete(body_key(body))
            self._bucket.delete(f"{self._place}begun/{body}")
            return Ingested(sha256, size, copied_bytes=0)
        self._note_held(sha256, size, body)
        return Ingested(sha256, size, copied_bytes=size)

    def _note_held(self, sha256: str, size: int, body: str) -> None:
        self._lease.check()
        self._bucket.put(held_key(self._key, sha256, size, body), b"")

    def hold(self, sha256: str, size: int) -> bool:
        if (sha256, size) in self._held:
            return True
        self._lease.check()
        # Held before it is noted: while this process lives the record tells of it, and the staging area
        # exists.
        body = self._records.hold(sha256, size, self._key)
        if body is None:
            return False
        self._note_held(sha256, size, body)
        with self._lock:
            self._held.setdefault((sha256, size), body)
        return True

    def reserve(self, parts: Mapping[str, int]) -> None:
        """A bucket is never full."""

    def has_begun(self) -> bool:
        return bool(self._held) or self._bucket.has_any(f"{self._place}parts/")

    @contextmanager
    def part(self, key: str, size: int) -> Iterator[BucketPart]:
        piece_bytes = part_bytes_of(size, self._part_bytes)
        prefix = f"{self._place}parts/{key}/"
        yield BucketPart(self._bucket, prefix, size, by=self._lease.by, piece_bytes=piece_bytes)

    def complete(self, part: PartialFile, sha256: str) -> None:
        assert isinstance(part, BucketPart)  # noqa: S101
        upload = self._begun(part.size)
        upload.of_parts(part.pieces, part.rest)
        self._keep(upload.body, sha256, part.size)
        part.restart()

    @contextmanager
    def opened(self, sha256: str) -> Iterator[Content]:
        with self._lock:
            found = next((one, body) for one, body in self._held.items() if one[0] == sha256)
        (_, size), body = found
        yield BlobBody(self._bucket, body, size)

    def is_unwanted(self) -> bool:
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_SECONDS:
            return False
        self._looked = now
        try:
            self._bucket.head(self._place + "stop")
        except (ObjectGone, StoreUnavailable):
            return False
        return True

    def leave(self) -> None:
        self._lease.release()

    def write_note(self, name: str, data: bytes) -> None:
        self._lease.check()
        self._bucket.put(f"{self._place}notes/{name}", data)

    def _of_size(self, size: int) -> list[str]:
        with self._lock:
            if self._sizes is None:
                self._sizes = {}
                for _, blobs in self._records.walk():
                    for sha256, found in blobs.items():
                        self._sizes.setdefault(found, set()).add(sha256)
            own = {sha256 for sha256, found in self._held if found == size}
            return sorted(self._sizes.get(size, set()) | own)

    def _agrees(self, sha256: str, size: int, wanted: list[bytes]) -> bool:
        body = self._held.get((sha256, size)) or self._records.body_of(sha256, size)
        if body is None:
            return False
        read = BlobBody(self._bucket, body, size).sample
        try:
            return all(map(operator.eq, samples(size, read), wanted))
        except ObjectGone:
            return False


def held_key(key: str, sha256: str, size: int, body: str) -> str:
    return f"staging/{key}/held/{sha256}.{size}.{body}"


def held_in(bucket: BucketClient, key: str) -> dict[tuple[str, int], str]:
    """Bodies by sha256 and size."""
    prefix = f"staging/{key}/held/"
    found = (listed.key.removeprefix(prefix).split(".", 2) for listed in bucket.listed(prefix))
    return {(sha256, int(size)): body for sha256, size, body in found}


def begun_in(bucket: BucketClient, key: str) -> set[str]:
    prefix = f"staging/{key}/begun/"
    return {listed.key.removeprefix(prefix) for listed in bucket.listed(prefix)}
