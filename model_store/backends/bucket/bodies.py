"""Writing and reading the bytes of contents."""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from model_store.backends.bucket.client import BucketClient, ObjectGone, side_by_side
from model_store.backends.bucket.records import body_key
from model_store.errors import StagingBusy, StoreUnavailable
from model_store.reading import WindowedContent

PART_BYTES = 16 * 1024 * 1024
"""Between 5 MiB and 5 GiB, as S3 wants the parts of an upload."""
MOST_PARTS = 10_000
AT_ONCE = 4
"""Parts on their way for one file; each is in memory."""
WINDOW_BYTES = 1024 * 1024


def part_bytes_of(size: int, least: int) -> int:
    """Return the part size for a file of `size` bytes, at least `least`."""
    return max(least, -(-size // (MOST_PARTS - 1)))


class BucketUpload:
    """A body that is being written. Its key is known when it ends; until then nobody can read it.

    Always an upload in parts, however small: that is what can be aborted, so that a writer who comes late
    finds that it is too late.
    """

    def __init__(self, bucket: BucketClient, key: str, size: int) -> None:
        self.body = f"{key}.{uuid4().hex}"
        self._bucket = bucket
        self._size = size
        self._id = bucket.begin_upload(body_key(self.body))
        self._begun = f"staging/{key}/begun/{self.body}"
        bucket.put(self._begun, b"")

    def part(self, number: int, data: bytes) -> str:
        """Raises StagingBusy when a successor on the staging area has aborted the upload."""
        try:
            return self._bucket.upload_part(body_key(self.body), self._id, number, data)
        except ObjectGone:
            raise _taken_over() from None

    def copied_part(self, number: int, source: str) -> str:
        """`source` is a key. Raises StagingBusy like `part`."""
        try:
            return self._bucket.copy_part(body_key(self.body), self._id, number, source)
        except ObjectGone:
            raise _taken_over() from None

    def complete(self, etags: list[str]) -> None:
        """Raises StagingBusy like `part`."""
        try:
            self._bucket.complete_upload(body_key(self.body), self._id, etags)
        except ObjectGone:
            # Or it was completed, and the answer was lost on its way.
            try:
                is_there = self._bucket.head(body_key(self.body)).size == self._size
            except ObjectGone:
                is_there = False
            if not is_there:
                raise _taken_over() from None

    @contextmanager
    def streaming(self, part_bytes: int) -> Iterator[Callable[[bytes | memoryview], None]]:
        """Give a function that uploads its argument, several parts at once; all is stored when the context
        ends.
        """
        buffer = bytearray()
        etags: list[str] = []
        coming: deque[Future[str]] = deque()
        with ThreadPoolExecutor(AT_ONCE) as pool:

            def send() -> None:
                if len(coming) == AT_ONCE:
                    etags.append(coming.popleft().result())
                data = bytes(buffer[:part_bytes])
                del buffer[:part_bytes]
                coming.append(pool.submit(self.part, len(etags) + len(coming) + 1, data))

            def write(data: bytes | memoryview) -> None:
                buffer.extend(data)
                while len(buffer) >= part_bytes:
                    send()

            try:
                yield write
            except Exception:
                self._abort()
                raise
            if buffer or not (etags or coming):
                send()
            etags += [one.result() for one in coming]
        self.complete(etags)

    def _abort(self) -> None:
        with suppress(ObjectGone, StoreUnavailable):
            self._bucket.abort_uploads(body_key(self.body))
            self._bucket.delete(self._begun)

    def of_parts(self, sources: list[str], rest: bytes) -> None:
        """The contents of these objects, one after the other, and then `rest`."""
        numbered = list(enumerate(sources, 1))
        etags = side_by_side(lambda one: self.copied_part(*one), numbered)
        if rest or not etags:
            etags.append(self.part(len(etags) + 1, rest))
        self.complete(etags)


def _taken_over() -> StagingBusy:
    return StagingBusy("Another process has taken over the import.")


class BlobBody(WindowedContent):
    """See `Content`."""

    def __init__(self, bucket: BucketClient, body: str, size: int) -> None:
        super().__init__(size, partial(bucket.read, body_key(body)), window_bytes=WINDOW_BYTES)

    def sample(self, offset: int, length: int) -> bytes:
        """Like `read_at`, but no more than that is read."""
        return self._read(offset, min(length, self.size - offset))


def stream(
    bucket: BucketClient, body: str, size: int, *, start: int = 0, window: int = PART_BYTES
) -> Iterator[bytes]:
    """The bytes from `start` on, in order, while several windows are on their way. Raises ObjectGone."""
    key = body_key(body)
    offsets = range(start, size, window)
    return ahead(partial(bucket.read, key, offset, min(window, size - offset)) for offset in offsets)


def ahead(reads: Iterable[Callable[[], bytes]]) -> Iterator[bytes]:
    """Yield the result of each read in order, while several are in flight."""
    coming: deque[Future[bytes]] = deque()
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        for read in reads:
            coming.append(pool.submit(read))
            if len(coming) == AT_ONCE:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def sha256_of(chunks: Iterator[bytes], *, counted: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
        counted(len(chunk))
    return digest.hexdigest()
