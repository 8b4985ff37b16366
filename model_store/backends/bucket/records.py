"""Records of blobs, changed by compare-and-set alone: what is published, held and deleted.

Rows first: whoever publishes has written the rows that refer to a content before, and every publication and
every hold changes the record. Whoever deletes reads the record, asks for rows that refer to it, and condemns
exactly the record that was read. So of a publication and a deletion at the same time one sees the other,
however long either sleeps in between, and no clock is asked. Bodies have names of their own that never come
again: what a sleeper deletes late is nobody's.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from uuid import uuid4

from model_store.backends.base import PARTS, Reclaimed
from model_store.backends.bucket.client import BucketClient, ObjectGone, PreconditionFailed, side_by_side
from model_store.errors import BlobMissing, StoreUnavailable

CLEARED_AT_ONCE = 500
TRIES = 20
"""Of one compare-and-set. Each that fails means that somebody else has got on."""


@dataclass(frozen=True, slots=True)
class BlobRecord:
    """`body`: id of the body. `held_by`: keys of staging areas. `is_condemned`: it is no blob any more, and
    what is left of it is to be removed.
    """

    body: str
    held_by: frozenset[str] = frozenset()
    is_condemned: bool = False

    def as_bytes(self) -> bytes:
        """Never twice the same: an ETag may be a hash of the content, and every change has to show."""
        return json.dumps(
            {
                "body": self.body,
                "held_by": sorted(self.held_by),
                "is_condemned": self.is_condemned,
                "change": uuid4().hex,
            }
        ).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "BlobRecord":
        found = json.loads(data)
        return cls(found["body"], frozenset(found["held_by"]), found["is_condemned"])


def record_key(sha256: str, size: int) -> str:
    return f"blobs/{sha256[:2]}/{sha256}.{size}"


def body_key(body: str) -> str:
    return f"bodies/{body}"


class BlobRecords:
    def __init__(self, bucket: BucketClient) -> None:
        self._bucket = bucket

    def find(self, sha256: str, size: int) -> tuple[BlobRecord, str] | None:
        """The record and its ETag."""
        try:
            data, etag = self._bucket.get(record_key(sha256, size))
        except ObjectGone:
            return None
        return BlobRecord.from_bytes(data), etag

    def body_of(self, sha256: str, size: int) -> str | None:
        """The id of a blob's body, if it is there and whole."""
        found = self.find(sha256, size)
        if found is None or found[0].is_condemned:
            return None
        return found[0].body if self.size_of(found[0].body) == size else None

    def size_of(self, body: str) -> int | None:
        try:
            return self._bucket.head(body_key(body)).size
        except ObjectGone:
            return None

    def size_named(self, sha256: str) -> int | None:
        """The size of a blob of which only the name is known."""
        found = next(self._bucket.listed(f"blobs/{sha256[:2]}/{sha256}."), None)
        return None if found is None else int(found.key.rpartition(".")[2])

    def walk(self, first: int = 0) -> Iterator[tuple[int, dict[str, int]]]:
        """See `Store.walk`."""
        part, found = first, dict[str, int]()
        after = f"blobs/{first - 1:02x}/~" if first else ""
        if first < PARTS:
            for listed in self._bucket.listed("blobs/", after=after):
                _, place, name = listed.key.split("/")
                if int(place, 16) != part and found:
                    yield part, found
                    found = {}
                part = int(place, 16)
                sha256, _, size = name.partition(".")
                found[sha256] = int(size)
        if found:
            yield part, found

    def hold(self, sha256: str, size: int, key: str) -> str | None:
        """Keep the blob from being deleted as long as the staging area `key` exists, which it must: its body.

        None: there is no such blob.
        """
        for _ in range(TRIES):
            found = self.find(sha256, size)
            if found is None or found[0].is_condemned:
                return None
            record, etag = found
            if self.size_of(record.body) != size:
                return None
            if key in record.held_by:
                return record.body
            if self._put(sha256, size, replace(record, held_by=record.held_by | {key}), etag):
                return record.body
        raise _too_busy(sha256)

    def release(self, sha256: str, size: int, key: str) -> None:
        for _ in range(TRIES):
            found = self.find(sha256, size)
            if found is None or key not in found[0].held_by:
                return
            record, etag = found
            if self._put(sha256, size, replace(record, held_by=record.held_by - {key}), etag):
                return
        raise _too_busy(sha256)

    def publish(self, sha256: str, size: int, body: str | None, key: str) -> None:
        """Make the content a blob, of the body that is there or else of this one, held by the staging area
        `key`.

        Raises BlobMissing.
        """
        for _ in range(TRIES):
            found = self.find(sha256, size)
            if found is not None and not found[0].is_condemned:
                record, etag = found
                if self.size_of(record.body) == size:
                    # The change itself counts: a deletion that has read the record before starts over.
                    if self._put(sha256, size, replace(record, held_by=record.held_by | {key}), etag):
                        return
                    continue
            if body is None or self.size_of(body) != size or self.is_quarantined(sha256, body):
                raise _lost(sha256)
            if found is None:
                if self._put(sha256, size, BlobRecord(body, frozenset({key})), None):
                    return
                continue
            record, etag = found
            if record.body == body:
                # Condemned: whoever deletes it may do so at any time.
                raise _lost(sha256)
            # Its body goes first, since the record alone tells of it.
            self._bucket.delete(body_key(record.body))
            if self._put(sha256, size, BlobRecord(body, record.held_by | {key}), etag):
                return
        raise _too_busy(sha256)

    def reclaim(
        self, blobs: Collection[str], *, is_referenced: Callable[[Collection[str]], set[str]]
    ) -> Reclaimed:
        """See `Store.reclaim`. What a staging area holds stays, for a later time."""
        sizes = dict(zip(blobs, side_by_side(self.size_named, blobs), strict=True))
        named = [(sha256, size) for sha256, size in sizes.items() if size is not None]
        found = side_by_side(lambda one: (one, self.find(*one)), named)
        records = {one: seen for one, seen in found if seen is not None}
        keys = {key for record, _ in records.values() for key in record.held_by}
        living = {key for key in keys if self._bucket.has_any(f"staging/{key}/")}
        free = {one: seen for one, seen in records.items() if not seen[0].held_by & living}
        if not free:
            return Reclaimed(0, 0)
        referenced = is_referenced({sha256 for sha256, _ in free})
        doomed = [(*one, *seen) for one, seen in free.items() if one[0] not in referenced]
        gone = [size for size in side_by_side(lambda one: self._delete(*one), doomed) if size is not None]
        return Reclaimed(len(gone), sum(gone))

    def _delete(self, sha256: str, size: int, record: BlobRecord, etag: str) -> int | None:
        """Its bytes; None: somebody has published or held it since the record was read."""
        key = record_key(sha256, size)
        try:
            if not record.is_condemned:
                etag = self._bucket.put(key, replace(record, is_condemned=True).as_bytes(), unchanged=etag)
            # In this order: as long as the body is there, its record is.
            self._bucket.delete(body_key(record.body))
            self._bucket.delete(key, unchanged=etag)
        except PreconditionFailed:
            return None
        return size

    def quarantine(self, sha256: str, body: str) -> None:
        size = self.size_named(sha256)
        found = None if size is None else self.find(sha256, size)
        if size is None or found is None or found[0].body != body:
            return
        self._bucket.put(f"quarantine/{sha256}.{body}", b"")
        try:
            self._bucket.delete(record_key(sha256, size), unchanged=found[1])
        except PreconditionFailed:
            self.quarantine(sha256, body)

    def is_quarantined(self, sha256: str, body: str) -> bool:
        return self._bucket.has_any(f"quarantine/{sha256}.{body}")

    def clear_quarantine(self, *, older_than: timedelta, keep: Collection[str]) -> Reclaimed:
        old = (
            listed.key
            for listed in self._bucket.listed("quarantine/")
            if listed.age_seconds >= older_than.total_seconds()
            and listed.key.removeprefix("quarantine/").partition(".")[0] not in keep
        )
        gone = side_by_side(self._clear, list(islice(old, CLEARED_AT_ONCE)))
        return Reclaimed(len(gone), sum(gone))

    def _clear(self, key: str) -> int:
        """Its bytes."""
        body = key.partition(".")[2]
        size = self.size_of(body)
        # In this order: as long as the body is there, its name here tells that it is damaged.
        self._bucket.delete(body_key(body))
        self._bucket.delete(key)
        return size or 0

    def _put(self, sha256: str, size: int, record: BlobRecord, etag: str | None) -> bool:
        try:
            self._bucket.put(
                record_key(sha256, size), record.as_bytes(), unchanged=etag, only_new=etag is None
            )
        except PreconditionFailed:
            return False
        return True


def _lost(sha256: str) -> BlobMissing:
    return BlobMissing(f"The import no longer holds the content {sha256[:12]}…; retry it.")


def _too_busy(sha256: str) -> StoreUnavailable:
    return StoreUnavailable(f"The record of the content {sha256[:12]}… changes all the time; retry it.")
