"""A file of a staging area that comes in pieces: each full piece is an object, so that any machine can go
on.
"""

from collections.abc import Iterator

from model_store.backends.bucket.client import BucketClient


class BucketPart:
    """See `Part`. What does not fill a piece yet is in memory, and lost with the process.

    The pieces carry the name of their writer: one that comes late replaces nothing.
    """

    def __init__(self, bucket: BucketClient, prefix: str, size: int, *, by: str, piece_bytes: int) -> None:
        self.size = size
        self._bucket = bucket
        self._prefix = prefix
        self._by = by
        self._piece_bytes = piece_bytes
        self._buffer = bytearray()
        self._come = 0
        self.pieces: list[str] = []
        for listed in bucket.listed(prefix):
            offset = int(listed.key.removeprefix(prefix).partition(".")[0])
            if offset == self._come and listed.size == piece_bytes and offset + listed.size <= size:
                self.pieces.append(listed.key)
                self._come += listed.size

    @property
    def done(self) -> int:
        return self._come + len(self._buffer)

    @property
    def rest(self) -> bytes:
        """Return the bytes after the last whole piece."""
        return bytes(self._buffer)

    def append(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= self._piece_bytes:
            key = f"{self._prefix}{self._come:020d}.{self._by}"
            self._bucket.put(key, bytes(self._buffer[: self._piece_bytes]))
            del self._buffer[: self._piece_bytes]
            self.pieces.append(key)
            self._come += self._piece_bytes

    def read_back(self) -> Iterator[bytes]:
        for piece in self.pieces:
            yield self._bucket.get(piece)[0]
        if self._buffer:
            yield bytes(self._buffer)

    def restart(self) -> None:
        self._bucket.delete_all(self.pieces)
        self.pieces, self._come = [], 0
        self._buffer.clear()
