"""GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Versions 2 and 3, little-endian."""

import math
import struct
from collections import Counter
from dataclasses import dataclass, field

from model_store.reading import Content, ContentCursor, MalformedContent

MAGIC = b"GGUF"
MAX_TENSORS = 1_000_000
MAX_KEYS = 100_000
MAX_KEY_BYTES = 65_535
MAX_ARRAY_ITEMS = 16_000_000
MAX_KEPT_BYTES = 4_096
MAX_TENSOR_NAME_BYTES = 512
MAX_DIMENSIONS = 8
DEFAULT_ALIGNMENT = 32

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SCALARS = {
    0: struct.Struct("<B"), 1: struct.Struct("<b"), 2: struct.Struct("<H"), 3: struct.Struct("<h"),
    4: struct.Struct("<I"), 5: struct.Struct("<i"), 6: struct.Struct("<f"), 7: struct.Struct("<?"),
    10: struct.Struct("<Q"), 11: struct.Struct("<q"), 12: struct.Struct("<d"),
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9
_TEMPLATES = ("tokenizer.chat_template", "tokenizer.chat_templates")
_NAMED_TEMPLATE = "tokenizer.chat_template."

# ggml type: name, elements per block, bytes per block (ggml.h and gguf-py's GGML_QUANT_SIZES).
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}  # fmt: skip

# llama.h: `llama_ftype`, what the whole file is called where its tensors are of several types.
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip

Value = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Gguf:
    """The contents of a header. `values` holds the scalar keys alone, long strings cut; of arrays, their
    lengths.
    """

    version: int
    tensors: int
    elements: int
    elements_by_type: dict[str, int] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    array_items: dict[str, int] = field(default_factory=dict)


def parse(content: Content) -> Gguf:
    """The header of a file whose tensors all lie inside it; else Malformed."""
    cursor = ContentCursor(content)
    version, tensors, keys = _beginning(cursor)
    values: dict[str, Value] = {}
    array_items: dict[str, int] = {}
    seen = set()
    for _ in range(keys):
        key = _string(cursor, MAX_KEY_BYTES)
        if key in seen:
            raise MalformedContent(f"it has the key '{key[:80]}' twice")
        seen.add(key)
        kind = int(cursor.unpack(_U32))
        if kind == _ARRAY:
            array_items[key] = _skip_array(cursor, nesting=0)
        else:
            values[key] = _value(cursor, kind)
    alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment % 8:
        raise MalformedContent(f"its general.alignment is {alignment!r}")
    by_type = _tensors(cursor, tensors, alignment=alignment)
    return Gguf(version, tensors, sum(by_type.values()), dict(by_type), values, array_items)


def chat_templates(content: Content, *, most: int, max_bytes: int) -> list[str]:
    """The first `max_bytes` of each chat template in a header, of at most so many; else Malformed.

    They stand under `tokenizer.chat_template`, `tokenizer.chat_template.NAME` and `tokenizer.chat_templates`;
    the last of these holds the names in files of llama.cpp, and nobody vouches for that.
    """
    cursor = ContentCursor(content)
    found: list[str] = []
    for _ in range(_beginning(cursor)[2]):
        key = _string(cursor, MAX_KEY_BYTES)
        kind = int(cursor.unpack(_U32))
        is_one = key in _TEMPLATES or key.startswith(_NAMED_TEMPLATE)
        if kind == _STRING and is_one:
            found.append(_text(cursor, max_bytes))
        elif kind != _ARRAY:
            _value(cursor, kind)
        elif not is_one:
            _skip_array(cursor, nesting=0)
        else:
            found += _texts(cursor, most=most - len(found), max_bytes=max_bytes)
        if len(found) >= most:
            break
    return found


def _beginning(cursor: ContentCursor) -> tuple[int, int, int]:
    """Version, number of tensors, number of keys."""
    if cursor.take(4) != MAGIC:
        raise MalformedContent("it does not begin with 'GGUF'")
    version = int(cursor.unpack(_U32))
    if version not in (2, 3):
        raise MalformedContent(f"its version is {version}; 2 and 3, little-endian, are known")
    tensors = int(cursor.unpack(_U64))
    keys = int(cursor.unpack(_U64))
    if tensors > MAX_TENSORS or keys > MAX_KEYS:
        raise MalformedContent(f"it claims {tensors:,} tensors and {keys:,} keys")
    return version, tensors, keys


def _string(cursor: ContentCursor, limit: int) -> str:
    length = int(cursor.unpack(_U64))
    if length > limit:
        raise MalformedContent(f"it has a string of {length:,} bytes where {limit:,} are allowed")
    try:
        return cursor.take(length).decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedContent("one of its strings is not UTF-8") from None


def _value(cursor: ContentCursor, kind: int) -> Value:
    if kind == _BOOL:
        byte = cursor.take(1)
        if byte not in (b"\x00", b"\x01"):
            raise MalformedContent("it has a truth value other than 0 and 1")
        return byte == b"\x01"
    if kind in _SCALARS:
        return cursor.unpack(_SCALARS[kind])
    if kind == _STRING:
        return _text(cursor, MAX_KEPT_BYTES)
    raise MalformedContent(f"it has a value of the unknown type {kind}")


def _text(cursor: ContentCursor, max_bytes: int) -> str:
    """The beginning of a string."""
    length = int(cursor.unpack(_U64))
    kept = cursor.take(min(length, max_bytes, cursor.left))
    cursor.skip(length - len(kept))
    return kept.decode("utf-8", "replace")


def _texts(cursor: ContentCursor, *, most: int, max_bytes: int) -> list[str]:
    """The first strings of an array; all of another one is skipped."""
    kind, items = _array(cursor)
    if kind != _STRING:
        _skip_items(cursor, kind, items, nesting=0)
        return []
    found = [_text(cursor, max_bytes) for _ in range(min(items, most))]
    _skip_items(cursor, kind, items - len(found), nesting=0)
    return found


def _skip_array(cursor: ContentCursor, *, nesting: int) -> int:
    """Skip an array and return its number of items."""
    if nesting >= 4:
        raise MalformedContent("its arrays are nested too deeply")
    kind, items = _array(cursor)
    _skip_items(cursor, kind, items, nesting=nesting)
    return items


def _array(cursor: ContentCursor) -> tuple[int, int]:
    """The type of its items, and how many there are."""
    kind = int(cursor.unpack(_U32))
    items = int(cursor.unpack(_U64))
    if items > MAX_ARRAY_ITEMS:
        raise MalformedContent(f"it has an array of {items:,} items")
    return kind, items


def _skip_items(cursor: ContentCursor, kind: int, items: int, *, nesting: int) -> None:
    if kind in _SCALARS:
        cursor.skip(items * _SCALARS[kind].size)
    elif kind == _STRING:
        for _ in range(items):
            cursor.skip(int(cursor.unpack(_U64)))
    elif kind == _ARRAY:
        for _ in range(items):
            _skip_array(cursor, nesting=nesting + 1)
    else:
        raise MalformedContent(f"it has an array of the unknown type {kind}")


def _tensors(cursor: ContentCursor, count: int, *, alignment: int) -> Counter[str]:
    """Elements by type."""
    spans = []
    by_type: Counter[str] = Counter()
    seen = set()
    for _ in range(count):
        name = _string(cursor, MAX_TENSOR_NAME_BYTES)
        if name in seen:
            raise MalformedContent(f"it has the tensor '{name[:80]}' twice")
        seen.add(name)
        dimensions = int(cursor.unpack(_U32))
        if dimensions > MAX_DIMENSIONS:
            raise MalformedContent(f"tensor '{name[:80]}' has {dimensions} dimensions")
        elements = math.prod(int(cursor.unpack(_U64)) for _ in range(dimensions))
        kind = int(cursor.unpack(_U32))
        offset = int(cursor.unpack(_U64))
        if offset % alignment:
            raise MalformedContent(f"tensor '{name[:80]}' is not aligned to {alignment} bytes")
        label, block, block_bytes = TYPES.get(kind, (f"type {kind}", 1, 0))
        if elements >= 2**63 or elements % block:
            raise MalformedContent(f"tensor '{name[:80]}' has a size that {label} cannot have")
        spans.append((offset, elements // block * block_bytes, name))
        by_type[label] += elements
    start = -(-cursor.position // alignment) * alignment
    for offset, length, name in spans:
        if start + offset + length > cursor.end:
            raise MalformedContent(f"tensor '{name[:80]}' reaches beyond the end of the file")
    return by_type
