"""Bounded reading of a file that nobody trusts."""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

WINDOW = 65_536


class MalformedContent(Exception):
    """The bytes are not what they claim to be; the message completes "it is not a valid X: ..."."""


class ContentTooLarge(MalformedContent):
    """The bytes are more than are looked at; the message stands by itself."""


class Content(Protocol):
    """Bytes that can be read anywhere. `read_at` returns fewer bytes only at the end."""

    @property
    def size(self) -> int: ...

    def read_at(self, offset: int, length: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class OpenFile:
    """An open descriptor; the caller closes it."""

    descriptor: int
    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        wanted = max(0, min(length, self.size - offset))
        pieces = []
        while wanted:
            piece = os.pread(self.descriptor, wanted, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            wanted -= len(piece)
        return b"".join(pieces)


@dataclass(frozen=True, slots=True)
class InMemoryContent:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


class WindowedContent:
    """Content that comes from afar: a header is read in many small pieces, and each window comes once.

    `read` gets an offset and a length that lies within the `size`.
    """

    def __init__(self, size: int, read: Callable[[int, int], bytes], *, window_bytes: int) -> None:
        self.size = size
        self._read = read
        self._window_bytes = window_bytes
        self._start, self._window = 0, b""

    def read_at(self, offset: int, length: int) -> bytes:
        length = max(0, min(length, self.size - offset))
        if not length:
            return b""
        at = offset - self._start
        if at < 0 or at + length > len(self._window):
            wanted = min(max(length, self._window_bytes), self.size - offset)
            self._start, self._window, at = offset, self._read(offset, wanted), 0
        return self._window[at : at + length]


class ContentCursor:
    """Reads forward through `content` from `start` to `end`; going past the end is Malformed, never a short
    read.
    """

    def __init__(self, content: Content, start: int = 0, end: int | None = None) -> None:
        self._content = content
        self._window = b""
        self._window_start = start
        self.position = start
        self.end = content.size if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise MalformedContent(f"it ends at byte {self.end}, inside a field of {length} bytes")
        offset = self.position - self._window_start
        data = self._window[offset : offset + length]
        if len(data) < length:
            self._window_start = self.position
            self._window = self._content.read_at(self.position, max(length, min(WINDOW, self.left)))
            data = self._window[:length]
            if len(data) < length:
                raise MalformedContent("it ends early")
        self.position += length
        return data

    def skip(self, length: int) -> None:
        if length > self.left:
            raise MalformedContent(f"it ends at byte {self.end}, inside a field of {length} bytes")
        self.position += length

    def unpack(self, layout: struct.Struct) -> int | float:
        value: int | float = layout.unpack(self.take(layout.size))[0]
        return value

    def varint(self) -> int:
        """A protobuf varint, at most 10 bytes."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedContent("a variable-length number is too long")
