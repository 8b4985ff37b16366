"""The protobuf wire format, as far as telling a real message from other bytes needs it."""

from collections.abc import Iterator
from typing import NamedTuple

from model_store.reading import Content, ContentCursor, MalformedContent

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MAX_FIELDS = 20_000_000


class ProtobufField(NamedTuple):
    """A field: its number, wire type, value (varints alone) and the place of its payload."""

    number: int
    wire: int
    value: int
    start: int
    end: int


def fields(content: Content, start: int = 0, end: int | None = None) -> Iterator[ProtobufField]:
    """The fields between `start` and `end`; Malformed at the first byte that cannot be one."""
    cursor = ContentCursor(content, start, end)
    for _ in range(MAX_FIELDS):
        if not cursor.left:
            return
        tag = cursor.varint()
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise MalformedContent("a field number is out of range")
        begin = cursor.position
        value = 0
        if wire == VARINT:
            value = cursor.varint()
        elif wire == LENGTH:
            length = cursor.varint()
            begin = cursor.position
            cursor.skip(length)
        elif wire == FIXED64:
            cursor.skip(8)
        elif wire == FIXED32:
            cursor.skip(4)
        else:
            raise MalformedContent(f"field {number} has the unknown wire type {wire}")
        yield ProtobufField(number, wire, value, begin, cursor.position)
    raise MalformedContent("it has too many fields")


def text(content: Content, field: ProtobufField, *, limit: int) -> str:
    if field.wire != LENGTH:
        raise MalformedContent(f"field {field.number} is not text")
    if field.end - field.start > limit:
        raise MalformedContent(f"field {field.number} is longer than {limit:,} bytes")
    try:
        return content.read_at(field.start, field.end - field.start).decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedContent(f"field {field.number} is not UTF-8") from None
