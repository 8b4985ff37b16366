"""The interface of stores that hold the registry's files, in our words."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol

from model_store.file_manifest import FileManifest
from model_store.reading import Content

PARTS = 256
"""Into so many parts of about one size the blobs fall by their sha256: for work that goes part by part."""

Counted = Callable[[int], None]
"""Told the number of bytes done since the last call; negative when some have to be done again."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """A file that a staging area holds. `copied_bytes` is 0 when the store held the content before."""

    sha256: str
    size: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class Reclaimed:
    blobs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BlobFlaw:
    """The defect of a blob, as a sentence. `mark` identifies the present bytes, which later ones may
    replace.
    """

    size: int
    mark: str
    detail: str


@dataclass(frozen=True, slots=True)
class StoreDescription:
    """The place of a store, for people. `cache_bytes`: held by this node; None where it has no cache."""

    kind: Literal["directory", "bucket"]
    where: str
    cache_bytes: int | None = None
    cache_limit_bytes: int | None = None


class PartialFile(Protocol):
    """A file that comes in pieces; what has come outlives the process that fetched it, all or nearly all."""

    size: int

    @property
    def done(self) -> int:
        """Bytes that have come."""

    def append(self, data: bytes) -> None: ...

    def read_back(self) -> Iterator[bytes]:
        """Yield the bytes received so far, from the beginning."""

    def restart(self) -> None:
        """Forget what has come."""


class Staging(Protocol):
    """The private holding area of one import: nothing in it is visible to anybody until it is published."""

    def probably_held(self, content: Content) -> bool:
        """Whether the store seems to hold this content, by its size and samples of it."""

    def check_space(self, new_bytes: int) -> None:
        """StoreFull unless so many bytes more fit."""

    def take(self, descriptor: int, size: int, *, counted: Counted) -> Ingested:
        """Hold the `size` bytes of an open file, hashed as they are read; each content is copied at most
        once.

        Raises StoreFull, SourceChanged (more or fewer bytes than `size`), OSError. Safe to call from several
        threads.
        """

    def take_over(self, path: Path, sha256: str, size: int, *, counted: Counted) -> bool:
        """Hold a file of our own that nobody writes to any more, if it has this size and this sha256.

        The store may link to it instead of copying it. Safe to call from several threads. Raises
        FileNotFoundError, StoreFull.
        """

    def hold(self, sha256: str, size: int) -> bool:
        """Hold a content that the store has; False when it has not."""

    def hold_blob_id(self, blob_id: str, size: int) -> str | None:
        """Hold the content that git knows by this id, if the store has it: its sha256."""

    def reserve(self, parts: Mapping[str, int]) -> None:
        """Take the room that parts of these sizes (bytes, by key) still need. Raises StoreFull."""

    def has_begun(self) -> bool:
        """Whether it holds anything, or a part of anything."""

    def part(self, key: str, size: int) -> AbstractContextManager[PartialFile]:
        """The file `key`, begun or continued; `complete` ends it. StoreFull while it is written."""

    def complete(self, part: PartialFile, sha256: str) -> None:
        """Hold a part that is whole; its sha256 is the caller's word."""

    def opened(self, sha256: str) -> AbstractContextManager[Content]:
        """A held file, for reading."""

    def is_unwanted(self) -> bool:
        """Whether somebody has asked to stop since the staging area was opened."""

    def leave(self) -> None:
        """Let others write the staging area: this process is about to end, wherever its threads are."""

    def write_note(self, name: str, data: bytes) -> None:
        """Keep a small file beside the held ones, whole or not at all."""


class BlobStore(Protocol):
    """Whatever stands in the way of its work, and is not told otherwise, is a StoreUnavailable."""

    @property
    def address(self) -> str:
        """The address by which `opened_at` opens the same store in another process. No secret is in it."""

    def staging(self, key: str) -> AbstractContextManager[Staging]:
        """The holding area `key`, made or continued; what an earlier process completed in it is still held.

        One process at a time: raises StagingBusy.
        """

    def is_busy(self, key: str) -> bool:
        """Whether a process writes the staging area right now, on any machine that shares the store."""

    def ask_to_stop(self, key: str) -> None:
        """Tell the process that writes the staging area, if there is one, that nobody wants it any more."""

    def read_note(self, key: str, name: str) -> bytes | None: ...

    def staging_keys(self) -> list[str]: ...

    def held(self, key: str) -> dict[str, int]:
        """Return the contents of a staging area: sizes in bytes by sha256."""

    def publish(self, key: str, manifest: FileManifest) -> None:
        """Make the staging area's files blobs of the store. Doing it again is no error. Raises
        BlobMissing.
        """

    def discard(self, key: str, *, is_referenced: Callable[[Collection[str]], set[str]]) -> Reclaimed:
        """Forget the staging area, and those of its blobs that were published but that nothing refers to.

        `is_referenced` gets sha256s and returns those that a version needs. Raises StagingBusy.
        """

    def reclaim(
        self, blobs: Iterable[str], *, is_referenced: Callable[[Collection[str]], set[str]]
    ) -> Reclaimed:
        """Delete those of `blobs` that nothing refers to. No publication happens meanwhile."""

    def quarantine(self, sha256: str, *, mark: str) -> None:
        """Move a damaged blob aside, if it still is what was found to be damaged. Idempotent."""

    def clear_quarantine(self, *, older_than: timedelta, keep: Collection[str]) -> Reclaimed:
        """Delete what was set aside longer ago than that, by the store's clock, but for the sha256s to `keep`
        and what a staging area or a version's directory still links to. Where each deletion takes its time,
        some hundreds go; the next call takes the rest.
        """

    def walk(self, first: int = 0) -> Iterator[tuple[int, dict[str, int]]]:
        """The parts from `first` on that are not empty, in order: sizes in bytes by sha256 of the blobs whose
        sha256 begins with the byte.
        """

    def verify(self, sha256: str, *, counted: Counted) -> BlobFlaw | None:
        """Read all of a blob and compare it with its name. None: it is right, or it was deleted meanwhile."""

    def check(self, manifest: FileManifest) -> None:
        """BlobMissing unless every blob is there with its size."""

    def opened(self, sha256: str) -> AbstractContextManager[Content]:
        """A blob, for reading. Raises BlobMissing."""

    def come_bytes(self, manifest: FileManifest) -> int:
        """Return how many bytes of the version this node has."""

    def is_at_hand(self, manifest: FileManifest) -> bool:
        """Whether `materialise` takes but a moment."""

    def materialise(self, manifest: FileManifest) -> Path:
        """A directory with the version's files under their own names, for a worker to read. Raises
        BlobMissing.
        """

    def dematerialise(self, digest: str) -> None: ...

    def materialised(self) -> dict[str, datetime]:
        """Since when each version is materialised, by digest."""

    def look(self) -> StoreDescription:
        """Describe the store's place. Raises StoreUnavailable when it cannot be reached."""

    def free_bytes(self) -> int | None:
        """Return the free bytes, or None where no limit is known."""
