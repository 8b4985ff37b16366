"""Items as files and messages: inputs out of bytes, outputs as bytes."""

import json
import struct
from typing import Any, get_origin

from serving.graphs.edge_types import EncodedImage, name_of
from serving.graphs.errors import ItemFailed

LARGEST_INPUT_BYTES = 64 << 20
MOST_PIXELS = 64_000_000
"""Of a picture that comes in; a small file may hold far more than memory can."""


def decode_input(kind: Any, data: bytes) -> Any:
    """The input of an item. Raises ItemFailed for what is too large or not of its type."""
    if len(data) > LARGEST_INPUT_BYTES:
        raise ItemFailed(f"it has {len(data)} bytes, more than {LARGEST_INPUT_BYTES}")
    if kind is EncodedImage:
        return checked_image(data)
    if kind is bytes:
        return data
    try:
        if kind is str:
            return data.decode()
        value = json.loads(data)
    except ValueError as error:
        raise ItemFailed(f"it is not {name_of(kind)}: {error}") from None
    wanted = get_origin(kind) or kind
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        raise ItemFailed(f"it is {type(value).__name__}, not {name_of(kind)}")
    return value


def decode_named(name: str, kind: Any, data: bytes) -> Any:
    """An input, or ItemFailed with its name."""
    try:
        return decode_input(kind, data)
    except ItemFailed as error:
        raise ItemFailed(f"input {name}: {error}") from None


def checked_image(data: bytes) -> EncodedImage:
    """The bytes, when they begin as those of a picture of a size that may be decoded. Raises ItemFailed."""
    size = picture_size(data)
    if size is None:
        raise ItemFailed("it is no PNG, JPEG or WebP picture")
    width, height = size
    if width * height > MOST_PIXELS:
        raise ItemFailed(f"it is {width} x {height}, more than {MOST_PIXELS} pixels")
    return EncodedImage(data)


def picture_size(data: bytes) -> tuple[int, int] | None:
    """Width and height, by the header alone: nothing is decoded."""
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
            return struct.unpack(">II", data[16:24])
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
        if data[:2] == b"\xff\xd8":
            return _jpeg_size(data)
    except (struct.error, IndexError):
        return None
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def encode_output(value: Any) -> tuple[str, bytes]:
    """Suffix and bytes of a result. Raises TypeError for what is neither bytes, text, an array nor JSON."""
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return _suffix(data), data
    if isinstance(value, str):
        return "txt", value.encode()
    if hasattr(value, "__array_interface__"):
        import io

        import numpy as np

        file = io.BytesIO()
        np.save(file, np.asarray(value), allow_pickle=False)
        return "npy", file.getvalue()
    return "json", json.dumps(value, ensure_ascii=False, sort_keys=True).encode()


def _suffix(data: bytes) -> str:
    if data[:4] == b"\x89PNG":
        return "png"
    if data[:2] == b"\xff\xd8":
        return "jpg"
    return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else "bin"


MEDIA_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "webp": "image/webp",
    "txt": "text/plain; charset=utf-8",
    "json": "application/json",
    "npy": "application/x-npy",
    "bin": "application/octet-stream",
}
