"""Who writes a staging area: an object that its writer renews. Its age is told by the server's clock alone.

A writer that sleeps past its lease does no harm when it wakes: what it writes has names of its own, what it
has begun was aborted by its successor, and its next renewal tells it that it has lost.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from model_store.backends.bucket.client import BucketClient, ObjectGone, PreconditionFailed
from model_store.errors import StagingBusy, StoreUnavailable

LEASE_SECONDS = 30.0


class BucketLease:
    """`by` is unlike that of any other lease."""

    def __init__(self, bucket: BucketClient, key: str, seconds: float) -> None:
        self._bucket = bucket
        self._key = key
        self._seconds = seconds
        self._etag = ""
        self._is_lost = threading.Event()
        self._is_over = threading.Event()
        self.by = uuid4().hex

    def check(self) -> None:
        """Raises StagingBusy when another has taken over."""
        if self._is_lost.is_set():
            raise _busy(self._key)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Raises StagingBusy when another holds it."""
        self._take()
        renewing = threading.Thread(target=self._renew, daemon=True)
        renewing.start()
        try:
            yield
        finally:
            self._is_over.set()
            renewing.join()
            self.release()

    def release(self) -> None:
        """Best effort: it runs out by itself."""
        self._is_over.set()
        with suppress(PreconditionFailed, StoreUnavailable):
            self._bucket.delete(self._key, unchanged=self._etag)

    def _take(self) -> None:
        found = _etag_if_over(self._bucket, self._key, self._seconds)
        try:
            self._etag = self._write(found)
        except PreconditionFailed:
            # Or it was us, and the answer was lost on its way.
            if not self._is_ours():
                raise _busy(self._key) from None

    def _write(self, etag: str | None) -> str:
        data = f"{self.by} {uuid4().hex}".encode()
        return self._bucket.put(self._key, data, unchanged=etag, only_new=etag is None)

    def _is_ours(self) -> bool:
        try:
            data, etag = self._bucket.get(self._key)
        except ObjectGone:
            return False
        if not data.startswith(self.by.encode()):
            return False
        self._etag = etag
        return True

    def _renew(self) -> None:
        while not self._is_over.wait(max(0.05, self._seconds / 3)):
            try:
                self._etag = self._write(self._etag)
            except PreconditionFailed:
                try:
                    is_ours = self._is_ours()
                except StoreUnavailable:
                    continue
                if not is_ours:
                    self._is_lost.set()
                    return
            except StoreUnavailable:
                # When it answers again, the condition tells whether the lease is still ours.
                continue


def is_held(bucket: BucketClient, key: str, seconds: float) -> bool:
    try:
        _etag_if_over(bucket, key, seconds)
    except StagingBusy:
        return True
    return False


def _etag_if_over(bucket: BucketClient, key: str, seconds: float) -> str | None:
    """The ETag of a lease that has run out; None: there is none. Raises StagingBusy."""
    try:
        head = bucket.head(key)
    except ObjectGone:
        return None
    if head.age_seconds < seconds:
        raise _busy(key)
    return head.etag


def _busy(key: str) -> StagingBusy:
    return StagingBusy(f"Another process is at work on {key.split('/')[1]}.")
