"""An upload buffer in the bucket: whatever web a part comes to, and whichever of them dies.

    uploads/<key>/manifest                  the files that it is to be, and which contents need not come
    uploads/<key>/parts/<sha256>/<index>    a part that has come
    uploads/<key>/reopened/<sha256>         a content that was known, and has to come after all

A part is written once (`If-None-Match`): what has come is not replaced, and so what is whole cannot be
changed by a request that was late, until all of it has to come again.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from functools import partial
from typing import cast

from model_store.backends.base import Counted, Staging
from model_store.backends.bucket.bodies import ahead
from model_store.backends.bucket.client import BucketClient, ObjectGone, PreconditionFailed, side_by_side
from model_store.backends.bucket.staging import BucketStaging
from model_store.backends.ingest import Write
from model_store.backends.location import BucketLocation
from model_store.file_manifest import ManifestFile
from model_store.upload_buffer import (
    AnnouncedContent,
    RequestBody,
    UploadBuffer,
    check_body,
    differs,
    gone,
    too_long,
)

CHUNK_BYTES = 1024 * 1024
CHECKED_AT_ONCE_BYTES = 64 * 1024 * 1024
"""Up to this size a content is read again and compared with its name when its last part comes; larger ones
when the version is made."""


class BucketUploadBuffer(UploadBuffer):
    """See `UploadBuffer`."""

    def __init__(self, bucket: BucketClient, key: str, *, part_bytes: int) -> None:
        super().__init__(part_bytes=part_bytes)
        self._bucket = bucket
        self._place = f"uploads/{key}/"

    @classmethod
    def at(cls, store: str, key: str, *, part_bytes: int) -> "BucketUploadBuffer":
        """Open the buffer of the store at this address."""
        return cls(BucketClient(BucketLocation.from_address(store)), key, part_bytes=part_bytes)

    def begin(self, files: Iterable[ManifestFile], contents: Collection[AnnouncedContent]) -> None:
        listed = [(file.path, file.size, file.sha256) for file in files]
        known = sorted(content.sha256 for content in contents if content.is_known)
        self._bucket.put(self._manifest, json.dumps({"files": listed, "known": known}).encode())

    def manifest(self) -> tuple[list[ManifestFile], frozenset[str]]:
        try:
            told = json.loads(self._bucket.get(self._manifest)[0])
        except ObjectGone:
            raise FileNotFoundError(self._manifest) from None
        return [ManifestFile(*columns) for columns in told["files"]], frozenset(told["known"])

    def exists(self) -> bool:
        return self._bucket.has_any(self._place)

    def is_missing(self, content: AnnouncedContent) -> bool:
        return self.is_awaited(content) and len(self._came(content)) < self.part_count(content.size)

    def is_awaited(self, content: AnnouncedContent) -> bool:
        return not content.is_known or self._bucket.has_any(self._reopened(content))

    def received(self, content: AnnouncedContent) -> list[range]:
        if not self.is_awaited(content):
            return [range(content.size)]
        return self.ranges_of(self._came(content), content.size)

    def missing(self, contents: Collection[AnnouncedContent]) -> dict[str, list[range]]:
        came: dict[str, list[int]] = {}
        reopened: set[str] = set()
        for listed in self._bucket.listed(self._place):
            kind, _, name = listed.key.removeprefix(self._place).partition("/")
            if kind == "parts":
                sha256, _, index = name.partition("/")
                came.setdefault(sha256, []).append(int(index))
            elif kind == "reopened":
                reopened.add(name)
        return {
            one.sha256: self.ranges_of(came.get(one.sha256, ()), one.size)
            for one in contents
            if (not one.is_known or one.sha256 in reopened)
            and len(came.get(one.sha256, ())) < self.part_count(one.size)
        }

    def write(
        self, content: AnnouncedContent, *, parts: range, body: RequestBody, digest: bytes | None = None
    ) -> bool:
        new = self._new(content, parts)
        if not new:
            if not self._is_begun():
                raise gone()
            return False
        start = parts.start * self.part_bytes
        data = self._read(self.bytes_of(parts, content.size), body, digest)
        if self.part_count(content.size) == 1:
            self._compare(content, hashlib.sha256(data).hexdigest())
        pieces = {index: self.part_range(index, content.size) for index in new}
        side_by_side(
            lambda index: self._put(
                self._part(content, index), data[pieces[index].start - start : pieces[index].stop - start]
            ),
            new,
        )
        if not self._is_begun():
            # Discarded meanwhile: these would be found by nobody but the search for orphans.
            self._bucket.delete_all([self._part(content, index) for index in new])
            raise gone()
        is_small = self.part_count(content.size) > 1 and content.size <= CHECKED_AT_ONCE_BYTES
        if is_small and not self.is_missing(content):
            self._check(content)
        return True

    def _new(self, content: AnnouncedContent, parts: range) -> list[int]:
        """Return the parts that are wanted and have not been received."""
        if not self.is_awaited(content) or not self.part_count(content.size):
            return []
        came = set()
        for index in self._listed(content, after=parts.start - 1):
            if index not in parts:
                break
            came.add(index)
        return [index for index in parts if index not in came]

    @staticmethod
    def _read(told: range, body: RequestBody, digest: bytes | None) -> bytes:
        """All of a body, in memory: what it is has to be known before any of it is a part."""
        found, data = hashlib.sha256(), bytearray()
        while chunk := body.read(CHUNK_BYTES):
            if len(data) + len(chunk) > len(told):
                raise too_long(told)
            found.update(chunk)
            data += chunk
        check_body(len(data), told, found=found.digest(), digest=digest)
        return bytes(data)

    def _put(self, key: str, data: bytes) -> None:
        try:
            self._bucket.put(key, data, only_new=True)
        except PreconditionFailed:
            return

    def _check(self, content: AnnouncedContent) -> None:
        """Raises ContentDiffers, after which all parts have to come again."""
        found = hashlib.sha256()
        try:
            for data in self._pieces(content):
                found.update(data)
        except ObjectGone:
            # Somebody else has found it wrong.
            return
        if found.hexdigest() != content.sha256:
            self.restart(content)
        self._compare(content, found.hexdigest())

    @staticmethod
    def _compare(content: AnnouncedContent, found: str) -> None:
        if found != content.sha256:
            raise differs(content.sha256, found)

    def restart(self, content: AnnouncedContent) -> None:
        self._bucket.delete_all([self._part(content, index) for index in self._came(content)])

    def open_anew(self, content: AnnouncedContent) -> None:
        self._bucket.put(self._reopened(content), b"")

    def hand_over(self, content: AnnouncedContent, staging: Staging, *, counted: Counted) -> bool:
        def read(write: Write) -> str:
            found = hashlib.sha256()
            for data in self._pieces(content):
                found.update(data)
                write(memoryview(data))
                counted(len(data))
            return found.hexdigest()

        try:
            # Where the uploads are in the bucket, the staging areas are.
            into = cast(BucketStaging, staging)
            return into.take_read(read, content.sha256, content.size, counted=counted)
        except ObjectGone:
            raise FileNotFoundError(content.sha256) from None

    def discard(self) -> None:
        # Who writes looks for it afterwards: it goes first.
        self._bucket.delete(self._manifest)
        self._bucket.delete_all([listed.key for listed in self._bucket.listed(self._place)])

    def age_seconds(self) -> float | None:
        """Since something came, by the bucket's clock; None: nothing is there."""
        return min((listed.age_seconds for listed in self._bucket.listed(self._place)), default=None)

    def _is_begun(self) -> bool:
        try:
            self._bucket.head(self._manifest)
        except ObjectGone:
            return False
        return True

    def _came(self, content: AnnouncedContent) -> list[int]:
        return list(self._listed(content))

    def _listed(self, content: AnnouncedContent, *, after: int = -1) -> Iterator[int]:
        prefix = self._parts(content)
        behind = f"{prefix}{after:08d}" if after >= 0 else ""
        for listed in self._bucket.listed(prefix, after=behind):
            yield int(listed.key.removeprefix(prefix))

    def _pieces(self, content: AnnouncedContent) -> Iterator[bytes]:
        indexes = range(self.part_count(content.size))
        return ahead(partial(self._piece, self._part(content, index)) for index in indexes)

    def _piece(self, key: str) -> bytes:
        return self._bucket.get(key)[0]

    @property
    def _manifest(self) -> str:
        return f"{self._place}manifest"

    def _parts(self, content: AnnouncedContent) -> str:
        return f"{self._place}parts/{content.sha256}/"

    def _part(self, content: AnnouncedContent, index: int) -> str:
        return f"{self._parts(content)}{index:08d}"

    def _reopened(self, content: AnnouncedContent) -> str:
        return f"{self._place}reopened/{content.sha256}"


def orphans(store: str, *, known: Collection[str], older_than: timedelta) -> Iterator[UploadBuffer]:
    """See `forget_buffers`."""
    bucket = BucketClient(BucketLocation.from_address(store))
    for key in set(bucket.folders("uploads/")) - set(known):
        found = BucketUploadBuffer(bucket, key, part_bytes=1)
        age = found.age_seconds()
        if age is not None and age >= older_than.total_seconds():
            yield found
