"""Values between the executor and the processes of tasks: a small document, and bytes beside it.

A value is its pickle, and the places of its large arrays in the memory file of the process that made it; what
found no room there is in the message. The executor passes values on without opening them.
"""

from collections.abc import Callable
from typing import Any

from serving.graphs.encoding import encode_output
from serving.graphs.paths import follow
from serving.graphs.routes import Part, PartMode
from serving.runtime.arena import Arena, Bytes
from serving.runtime.packing import pack

INLINE = -1
"""In the place of a block or an arena: the bytes are in the message."""


class BodyWriter:
    """The bytes beside a document."""

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def add(self, data: Any) -> int:
        self._pieces.append(data)
        return len(data)

    def bytes(self) -> bytes:
        return b"".join(self._pieces)


class BodyReader:
    """The bytes beside a document, in the order in which they were written."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    def take(self, length: int) -> memoryview:
        self._at += length
        return self._data[self._at - length : self._at]


class ResultPacker:
    """Takes the parts that are needed out of results, and writes them where others can read them."""

    def __init__(self, arena: Arena | None) -> None:
        self._arena = arena
        self.body = BodyWriter()

    def parts(self, value: Any, parts: list[Part]) -> list[Any]:
        return [self.part(value, one) for one in parts]

    def part(self, value: Any, part: Part) -> list[Any]:
        """Its document: `x` and the reason where the serial run would raise."""
        try:
            found = follow(value, part.path)
            if part.mode is PartMode.FLAG:
                return ["f", bool(found)]
            if part.mode is PartMode.ELEMENTS:
                return ["l", [self._packed(one) for one in found]]
            if part.mode is PartMode.OUTPUT:
                suffix, data = encode_output(found)
                return ["e", suffix, self._beside([_as_bytes(data)])]
            return self._packed(found)
        except Exception as error:
            return ["x", f"{type(error).__name__}: {error}"[:1_000]]

    def _packed(self, value: Any) -> list[Any]:
        pickled, beside = pack(value)
        return ["p", self.body.add(pickled), self._beside(beside)]

    def _beside(self, arrays: list[Bytes]) -> list[tuple[int, int, int]]:
        places = []
        for data in arrays:
            place = self._arena.share(data) if self._arena is not None and data.nbytes else None
            if place is None:
                self.body.add(memoryview(data).cast("B") if data.nbytes else b"")  # type: ignore[arg-type]
                places.append((INLINE, 0, data.nbytes))
            else:
                places.append((place.block, place.offset, place.length))
        return places


def _as_bytes(data: bytes) -> Bytes:
    import numpy as np

    return np.frombuffer(data, np.uint8)


Borrow = Callable[[int, int, int], Any]
"""Bytes at a place of an arena: its number, offset, length."""


def read_beside(places: list[list[int]], body: BodyReader, borrow: Borrow) -> list[Any]:
    """Buffers of a value that came to a process of a task; those from the message may be written to."""
    return [
        bytearray(body.take(length)) if arena == INLINE else borrow(arena, offset, length)
        for arena, offset, length in places
    ]
