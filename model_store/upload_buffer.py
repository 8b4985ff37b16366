"""Buffers in which an upload's contents are assembled from parts, in any order, by several requests.

It lies where the store does, so that whoever has the store has what came: beside a directory, or in the
bucket. What is whole cannot be changed by a request that was late. No Django in here.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from model_store.backends.base import Counted, Staging
from model_store.backends.opening import BUCKET
from model_store.errors import ContentDiffers, PartRefused, UnknownUpload
from model_store.file_manifest import ManifestFile

PART_BYTES = 256 * 1024
"""What is taken whole or not at all: so much of a request that breaks off in the middle comes again."""
BUCKET_PART_BYTES = 8 * 1024 * 1024
"""In a bucket, where each part is an object and costs requests."""


class RequestBody(Protocol):
    """The body of a request."""

    def read(self, size: int, /) -> bytes: ...


class AnnouncedContent(Protocol):
    """A content of an upload. `is_known`: the store had it when that began, so that it need not come."""

    @property
    def sha256(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def is_known(self) -> bool: ...


class UploadBuffer(ABC):
    """The upload buffer of one upload. `part_bytes` is the size of all parts but the last of each content."""

    def __init__(self, *, part_bytes: int) -> None:
        self.part_bytes = part_bytes

    def part_count(self, size: int) -> int:
        return -(-size // self.part_bytes)

    def part_range(self, index: int, size: int) -> range:
        """The bytes of a part of a content of that size."""
        return range(index * self.part_bytes, min((index + 1) * self.part_bytes, size))

    def bytes_of(self, parts: range, size: int) -> range:
        """The bytes of parts that follow one another."""
        return range(self.part_range(parts[0], size).start, self.part_range(parts[-1], size).stop)

    def ranges_of(self, indexes: Iterable[int], size: int) -> list[range]:
        """The bytes of these parts, which are in order: neighbours together."""
        found: list[range] = []
        for index in indexes:
            part = self.part_range(index, size)
            if found and found[-1].stop == part.start:
                part = range(found.pop().start, part.stop)
            found.append(part)
        return found

    @abstractmethod
    def begin(self, files: Iterable[ManifestFile], contents: Collection[AnnouncedContent]) -> None:
        """Take the room for the contents that are to come. Raises StoreFull, with nothing left."""

    @abstractmethod
    def manifest(self) -> tuple[list[ManifestFile], frozenset[str]]:
        """The files, and the sha256s of the contents that need not come. Raises FileNotFoundError."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether anything of it is left."""

    @abstractmethod
    def is_missing(self, content: AnnouncedContent) -> bool:
        """Whether parts of it are still waited for."""

    @abstractmethod
    def is_awaited(self, content: AnnouncedContent) -> bool:
        """Whether its parts come, or have come: not so for what the store had, and has still."""

    @abstractmethod
    def received(self, content: AnnouncedContent) -> list[range]:
        """The bytes of a content that have come, as far as its parts are whole: neighbours together."""

    @abstractmethod
    def missing(self, contents: Collection[AnnouncedContent]) -> dict[str, list[range]]:
        """Return the missing ranges of each content that is awaited, by sha256; close those that are
        whole.
        """

    @abstractmethod
    def write(
        self, content: AnnouncedContent, *, parts: range, body: RequestBody, digest: bytes | None = None
    ) -> bool:
        """Take parts that follow one another from `body`; False when all of them had come before, or the
        content need not come.

        `parts` are their indexes, `digest` is the sha256 of the body, where the client says it. The last part
        that was missing closes the content. Raises PartRefused, ContentDiffers, UnknownUpload when the upload
        buffer is gone, OSError, StoreUnavailable.
        """

    @abstractmethod
    def restart(self, content: AnnouncedContent) -> None:
        """Wait for all parts of a whole content again."""

    @abstractmethod
    def open_anew(self, content: AnnouncedContent) -> None:
        """Wait for all parts of a content that was known. Raises OSError when there is no room."""

    @abstractmethod
    def hand_over(self, content: AnnouncedContent, staging: Staging, *, counted: Counted) -> bool:
        """Have the staging area hold a whole content, if it is what was announced. Raises
        FileNotFoundError.
        """

    @abstractmethod
    def discard(self) -> None: ...


def lacking_bytes(contents: Iterable[AnnouncedContent], missing: Mapping[str, Iterable[range]]) -> int:
    """Return how many bytes of `UploadBuffer.missing` have not been received."""
    waited_for = [content for content in contents if content.sha256 in missing]
    return sum(one.size - sum(map(len, missing[one.sha256])) for one in waited_for)


def check_body(data: int, told: range, *, found: bytes, digest: bytes | None) -> None:
    """Compare a body of `data` bytes with what its headers say: its range, and its sha256. Raises
    PartRefused.
    """
    if data != len(told):
        raise PartRefused(f"The body has {data:,} bytes, its range has {len(told):,}. Send it again.")
    if digest is not None and found != digest:
        raise PartRefused("The body is not what its Content-Digest says: it was damaged on the way.")


def too_long(told: range) -> PartRefused:
    return PartRefused(f"The body is longer than the {len(told):,} bytes of its range.")


def gone() -> UnknownUpload:
    return UnknownUpload("What has come of this upload is gone. Begin another one.")


def differs(sha256: str, found: str) -> ContentDiffers:
    return ContentDiffers(
        f"What came as {sha256[:12]}… has the sha256 {found[:12]}…. It was announced wrong, or its file "
        "changed meanwhile; all of it has to come again."
    )


def buffer_at(store: str, key: str, *, part_bytes: int) -> UploadBuffer:
    """The upload buffer `key` of the store that has this `Store.address`."""
    if store.startswith(BUCKET):
        # As in `opened_at`: what boto3 takes is for those who have a bucket.
        from model_store.backends.bucket.upload_buffer import BucketUploadBuffer

        return BucketUploadBuffer.at(store, key, part_bytes=part_bytes)
    from model_store.backends.local_upload_buffer import LocalUploadBuffer

    return LocalUploadBuffer(Path(store) / "uploads" / key, part_bytes=part_bytes)


def forget_buffers(store: str, *, known: Collection[str], older_than: timedelta) -> None:
    """Discard upload buffers of other names than those, to which nothing has come for so long."""
    if store.startswith(BUCKET):
        from model_store.backends.bucket.upload_buffer import orphans
    else:
        from model_store.backends.local_upload_buffer import orphans
    for buffer in orphans(store, known=known, older_than=older_than):
        buffer.discard()


def part_bytes_in(store: str) -> int:
    """The size of the parts of an upload that begins now."""
    return BUCKET_PART_BYTES if store.startswith(BUCKET) else PART_BYTES
