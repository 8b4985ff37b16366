"""The store in a bucket. What each object means is told in this package's docstring."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

from model_store.backends.base import BlobFlaw, Counted, Reclaimed, StoreDescription
from model_store.backends.bucket import lease
from model_store.backends.bucket.bodies import PART_BYTES, BlobBody, sha256_of, stream
from model_store.backends.bucket.client import BucketClient, ObjectGone, PreconditionFailed, side_by_side
from model_store.backends.bucket.lease import LEASE_SECONDS, BucketLease
from model_store.backends.bucket.records import BlobRecords, body_key
from model_store.backends.bucket.staging import BucketStaging, begun_in, held_in, held_key
from model_store.backends.location import BucketLocation
from model_store.backends.node_cache import NodeCache
from model_store.errors import BlobMissing, StoreUnavailable
from model_store.file_manifest import FileManifest
from model_store.reading import Content

_heeding: set[BucketLocation] = set()
"""Places whose server was found to heed conditions, by this process."""


class BucketStore:
    """See `Store`."""

    def __init__(
        self,
        place: BucketLocation,
        *,
        part_bytes: int = PART_BYTES,
        lease_seconds: float = LEASE_SECONDS,
        bucket: BucketClient | None = None,
    ) -> None:
        self.place = place
        self._bucket = bucket or BucketClient(place)
        self._records = BlobRecords(self._bucket)
        self._part_bytes = part_bytes
        self._lease_seconds = lease_seconds
        self._cache = NodeCache(place.cache, self._stream, limit_bytes=place.cache_limit_bytes)

    @property
    def address(self) -> str:
        return self.place.address

    @contextmanager
    def staging(self, key: str) -> Iterator[BucketStaging]:
        with self._leased(key) as mine:
            staging = BucketStaging(self._bucket, self._records, mine, key, part_bytes=self._part_bytes)
            staging.begin()
            yield staging

    @contextmanager
    def _leased(self, key: str) -> Iterator[BucketLease]:
        mine = BucketLease(self._bucket, f"staging/{key}/lease", self._lease_seconds)
        with mine.held():
            yield mine

    def is_busy(self, key: str) -> bool:
        return lease.is_held(self._bucket, f"staging/{key}/lease", self._lease_seconds)

    def ask_to_stop(self, key: str) -> None:
        if self._bucket.has_any(f"staging/{key}/"):
            self._bucket.put(f"staging/{key}/stop", b"")

    def read_note(self, key: str, name: str) -> bytes | None:
        try:
            return self._bucket.get(f"staging/{key}/notes/{name}")[0]
        except ObjectGone:
            return None

    def staging_keys(self) -> list[str]:
        return sorted(self._bucket.folders("staging/"))

    def held(self, key: str) -> dict[str, int]:
        return dict(held_in(self._bucket, key).keys())

    def publish(self, key: str, manifest: FileManifest) -> None:
        held = held_in(self._bucket, key)
        wanted = {(file.sha256, file.size) for file in manifest.files}

        def publish_one(one: tuple[str, int]) -> None:
            try:
                self._records.publish(*one, held.get(one), key)
            except BlobMissing:
                # A retry is not to find it again.
                if one in held:
                    self._bucket.delete(held_key(key, *one, held[one]))
                raise

        side_by_side(publish_one, wanted)

    def discard(self, key: str, *, is_referenced: Callable[[Collection[str]], set[str]]) -> Reclaimed:
        if not self._bucket.has_any(f"staging/{key}/"):
            return Reclaimed(0, 0)
        with self._leased(key):
            self._bucket.abort_uploads(body_key(key) + ".")
            held, begun = held_in(self._bucket, key), begun_in(self._bucket, key)
            side_by_side(lambda one: self._records.release(*one, key), list(held))
            # Blobs first: after a crash in between, the staging area still tells which ones to look at.
            reclaimed = self.reclaim({sha256 for sha256, _ in held}, is_referenced=is_referenced)
            contents = {body: one for one, body in held.items()}
            own = [(body, contents.get(body)) for body in begun]
            side_by_side(lambda one: self._delete_unless_published(*one), own)
            place = f"staging/{key}/"
            left = {listed.key for listed in self._bucket.listed(place)} - {place + "lease"}
            self._bucket.delete_all(left)
            return reclaimed

    def _delete_unless_published(self, body: str, content: tuple[str, int] | None) -> None:
        found = self._records.find(*content) if content else None
        if found is None or found[0].body != body:
            is_evidence = content and self._records.is_quarantined(content[0], body)
            if not is_evidence:
                self._bucket.delete(body_key(body))

    def reclaim(
        self, blobs: Iterable[str], *, is_referenced: Callable[[Collection[str]], set[str]]
    ) -> Reclaimed:
        return self._records.reclaim(set(blobs), is_referenced=is_referenced)

    def quarantine(self, sha256: str, *, mark: str) -> None:
        self._records.quarantine(sha256, mark)

    def clear_quarantine(self, *, older_than: timedelta, keep: Collection[str]) -> Reclaimed:
        return self._records.clear_quarantine(older_than=older_than, keep=keep)

    def walk(self, first: int = 0) -> Iterator[tuple[int, dict[str, int]]]:
        return self._records.walk(first)

    def verify(self, sha256: str, *, counted: Counted) -> BlobFlaw | None:
        found = self._record(sha256)
        if found is None:
            return None
        body, size = found
        there = self._records.size_of(body)
        if there is None:
            # Deleted meanwhile, with its record; or by somebody else, without it.
            return (
                BlobFlaw(size, body, "The bucket holds it no longer.")
                if self._record(sha256) == found
                else None
            )
        try:
            sha256_found = sha256_of(stream(self._bucket, body, there), counted=counted)
        except ObjectGone:
            return None
        if sha256_found == sha256:
            return None
        return BlobFlaw(there, body, f"Its content has another sha256: {sha256_found[:12]}…")

    def check(self, manifest: FileManifest) -> None:
        def check_one(path: str, sha256: str, size: int) -> None:
            found = self._records.find(sha256, size)
            is_blob = found is not None and not found[0].is_condemned
            there = self._records.size_of(found[0].body) if found and is_blob else None
            if there != size:
                state = "is gone" if there is None else f"has {there:,} bytes instead of {size:,}"
                raise BlobMissing(f"The stored content of {path} ({sha256[:12]}…) {state}.")

        named = {(file.sha256, file.size): file.path for file in reversed(manifest.files)}
        side_by_side(lambda one: check_one(one[1], *one[0]), list(named.items()))

    @contextmanager
    def opened(self, sha256: str) -> Iterator[Content]:
        found = self._record(sha256)
        size = None if found is None else self._records.size_of(found[0])
        if found is None or size is None:
            raise BlobMissing(f"The store does not hold {sha256[:12]}…")
        yield BlobBody(self._bucket, found[0], size)

    def _record(self, sha256: str) -> tuple[str, int] | None:
        """The body of a blob, and the size that it should have."""
        size = self._records.size_named(sha256)
        found = None if size is None else self._records.find(sha256, size)
        if size is None or found is None or found[0].is_condemned:
            return None
        return found[0].body, size

    def _stream(self, sha256: str, size: int, start: int) -> Iterator[bytes]:
        body = self._records.body_of(sha256, size)
        if body is None:
            raise BlobMissing(f"The store does not hold {sha256[:12]}…")
        try:
            yield from stream(self._bucket, body, size, start=start, window=self._part_bytes)
        except ObjectGone:
            raise BlobMissing(f"The store no longer holds {sha256[:12]}…") from None

    def is_at_hand(self, manifest: FileManifest) -> bool:
        return self._cache.directories.whole(manifest) is not None

    def come_bytes(self, manifest: FileManifest) -> int:
        return self._cache.come_bytes(manifest)

    def materialise(self, manifest: FileManifest) -> Path:
        if not self.is_at_hand(manifest):
            self.check(manifest)
        return self._cache.materialise(manifest)

    def dematerialise(self, digest: str) -> None:
        self._cache.make()
        self._cache.directories.remove(digest)

    def materialised(self) -> dict[str, datetime]:
        self._cache.make()
        return self._cache.directories.all()

    def look(self) -> StoreDescription:
        """Raises StoreUnavailable also when the server does not heed conditions: the store rests on them."""
        if self.place in _heeding:
            self._bucket.has_any("probes/")
        else:
            self._probe()
            _heeding.add(self.place)
        return StoreDescription(
            "bucket", self.place.url, self._cache.used_bytes(), self.place.cache_limit_bytes
        )

    def _probe(self) -> None:
        key = f"probes/{uuid4().hex}"
        etag = self._bucket.put(key, b"1")
        refused = 0
        for ask in (
            lambda: self._bucket.put(key, b"2", only_new=True),
            lambda: self._bucket.put(key, b"2", unchanged='"0"'),
            lambda: self._bucket.delete(key, unchanged='"0"'),
        ):
            try:
                ask()
            except PreconditionFailed:
                refused += 1
        if refused < 3:
            raise StoreUnavailable(
                f"The server of the bucket {self.place.bucket} ignores conditions (If-Match, If-None-Match) "
                "of writes and deletions. Slipway needs one that heeds them."
            )
        self._bucket.delete(key, unchanged=etag)

    def free_bytes(self) -> None:
        """A bucket has no end."""
