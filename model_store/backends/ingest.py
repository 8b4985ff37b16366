"""The common part of staging areas: files are hashed as they are read, and moved only when new."""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from model_store.backends.base import Counted, Ingested
from model_store.errors import SourceChanged
from model_store.reading import Content, OpenFile

CHUNK_BYTES = 1024 * 1024
SMALL_BYTES = CHUNK_BYTES
SAMPLE_BYTES = 4096
SAMPLES = 9
CHANGED = "A file grew or shrank while it was being imported. Import it when nobody writes to it."

Write = Callable[[memoryview], None]
Read = Callable[[Write], str]
"""Hands all of a content to what it is called with; the sha256."""


class Ingest(ABC):
    """The common part of all staging areas; see `Staging`."""

    def probably_held(self, content: Content) -> bool:
        return content.size > SMALL_BYTES and self._has_likely_twin(content)

    def take(self, descriptor: int, size: int, *, counted: Counted) -> Ingested:
        if size <= SMALL_BYTES:
            return self._take_small(descriptor, size, counted=counted)
        if self._has_likely_twin(OpenFile(descriptor, size)):
            sha256 = read_through(descriptor, size, counted=counted)
            if self.hold(sha256, size):
                return Ingested(sha256, size, copied_bytes=0)
            # A twin in every sample that still differs is read again: what was counted is taken back.
            counted(-size)
        return self._take_new(
            size, lambda write: read_through(descriptor, size, counted=counted, write=write)
        )

    def _take_small(self, descriptor: int, size: int, *, counted: Counted) -> Ingested:
        data = OpenFile(descriptor, size + 1).read_at(0, size + 1)
        if len(data) != size:
            raise SourceChanged(CHANGED)
        sha256 = hashlib.sha256(data).hexdigest()
        counted(size)
        if self.hold(sha256, size):
            return Ingested(sha256, size, copied_bytes=0)

        def read(write: Write) -> str:
            write(memoryview(data))
            return sha256

        return self._take_new(size, read)

    def hold_blob_id(self, blob_id: str, size: int) -> str | None:
        for sha256 in self._of_size(size):
            if self.hold(sha256, size):
                with self.opened(sha256) as content:
                    if blob_id_of(content) == blob_id:
                        return sha256
        return None

    def _has_likely_twin(self, content: Content) -> bool:
        """Whether a held content of the same size agrees in samples spread over it.

        The next version of a model has weights of the same size; comparing a few pages tells it apart without
        reading it twice, and what agrees is then proven by its hash.
        """
        candidates = self._of_size(content.size)
        if not candidates:
            return False
        wanted = list(samples(content.size, content.read_at))
        return any(self._agrees(sha256, content.size, wanted) for sha256 in candidates)

    @abstractmethod
    def hold(self, sha256: str, size: int) -> bool: ...

    @abstractmethod
    def opened(self, sha256: str) -> AbstractContextManager[Content]: ...

    @abstractmethod
    def _of_size(self, size: int) -> list[str]:
        """Return the sha256s of contents of that size that the store or this staging area may hold."""

    @abstractmethod
    def _agrees(self, sha256: str, size: int, wanted: list[bytes]) -> bool:
        """Whether the samples of a content are `wanted`; False where it is gone."""

    @abstractmethod
    def _take_new(self, size: int, read: Read) -> Ingested:
        """Hold what is read, unless it turns out to be held meanwhile."""


def blob_id_of(content: Content) -> str:
    """Return git's id of this content: sha1 over `blob <size>`, a zero byte and its bytes."""
    digest = hashlib.sha1(b"blob %d\0" % content.size, usedforsecurity=False)
    for offset in range(0, content.size, CHUNK_BYTES):
        digest.update(content.read_at(offset, CHUNK_BYTES))
    return digest.hexdigest()


def samples(size: int, read_at: Callable[[int, int], bytes]) -> Iterator[bytes]:
    last = max(0, size - SAMPLE_BYTES)
    return (read_at(last * step // (SAMPLES - 1), SAMPLE_BYTES) for step in range(SAMPLES))


def read_through(
    descriptor: int, size: int, *, counted: Counted, write: Callable[[memoryview], None] | None = None
) -> str:
    """Return the sha256 of exactly `size` bytes; the hashed buffer is the one that is written.

    Raises SourceChanged.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(CHUNK_BYTES))
    done = 0
    while read := os.preadv(descriptor, [buffer], done):
        done += read
        if done > size:
            break
        digest.update(buffer[:read])
        if write is not None:
            write(buffer[:read])
        counted(read)
    if done != size:
        raise SourceChanged(CHANGED)
    return digest.hexdigest()
