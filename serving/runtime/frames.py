"""Messages between the front and its children: a small JSON document and a body. Children run the user's
code, so the front reads nothing of theirs that could run code."""

import json
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

import orjson

_HEAD = struct.Struct("<BxxxIQ")
Meta = dict[str, Any]
"""The document of a message."""


class Frame(IntEnum):
    STATE = 1
    """Child to front: `ready` with what it has to say, or `failed` with the reason."""
    REQUEST = 2
    CANCEL = 3
    ANSWER = 4
    """Whole, with its status and headers; ends the request."""
    PIECE = 5
    """Of a stream; the first one carries the headers."""
    END = 6
    """Of a stream, with a problem where it broke off."""
    PROGRESS = 7


_FRAMES: tuple[Frame, ...] = (Frame.STATE, *Frame)  # by their number


def pack_frame(kind: Frame, meta: Meta, body: bytes = b"") -> bytes:
    try:
        document = orjson.dumps(meta)
    except TypeError:  # numbers and text that only Python has
        document = json.dumps(meta, default=str, ensure_ascii=False).encode("utf-8", "replace")
    return b"".join((_HEAD.pack(kind, len(document), len(body)), document, body))


class FrameReader:
    """Cuts a byte stream into frames."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterable[tuple[Frame, Meta, bytes]]:
        if not self._unread and len(data) >= _HEAD.size:
            kind, meta_size, body_size = _HEAD.unpack_from(data)
            middle = _HEAD.size + meta_size
            if middle + body_size == len(data):  # one frame, as nearly always
                return ((_FRAMES[kind], orjson.loads(data[_HEAD.size : middle]), data[middle:]),)
        return self._whole(data)

    def _whole(self, data: bytes) -> Iterator[tuple[Frame, Meta, bytes]]:
        if self._unread:
            self._unread += data
            data = self._unread  # type: ignore[assignment]
        at, size = 0, len(data)
        while size - at >= _HEAD.size:
            kind, meta_size, body_size = _HEAD.unpack_from(data, at)
            middle = at + _HEAD.size + meta_size
            end = middle + body_size
            if size < end:
                break
            yield _FRAMES[kind], orjson.loads(data[at + _HEAD.size : middle]), bytes(data[middle:end])
            at = end
        self._unread = bytearray(data[at:])
