"""Pictures that model cards show: PNG, JPEG, GIF and WebP that begin and end as they should.

They are data to every loader and are never decoded here; demanding that nothing follows the picture keeps an
archive or a program from riding along.
"""

import struct

from model_store.reading import Content, Malformed

MAX_BYTES = 64 * 1024 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_CHUNK = struct.Struct(">I4s")


def sniff(content: Content) -> str:
    """'png', 'jpeg', 'gif', 'webp', or '' when it does not begin like a picture."""
    head = content.read_at(0, 16)
    if head.startswith(_PNG):
        return "png"
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    return "webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def check(content: Content, kind: str) -> None:
    """Malformed unless the picture fills the file."""
    if content.size > MAX_BYTES:
        raise Malformed(f"a picture may have at most {MAX_BYTES:,} bytes")
    tail = content.read_at(max(0, content.size - 2), 2)
    if kind == "png":
        _check_png(content)
    elif kind == "jpeg" and tail != b"\xff\xd9":
        raise Malformed("something follows its end marker")
    elif kind == "gif" and tail[-1:] != b";":
        raise Malformed("something follows its trailer")
    elif kind == "webp" and int.from_bytes(content.read_at(4, 4), "little") + 8 != content.size:
        raise Malformed("its length is not the one that it states")


def _check_png(content: Content) -> None:
    position = len(_PNG)
    while position + 12 <= content.size:
        length, name = _CHUNK.unpack(content.read_at(position, 8))
        position += 12 + length
        if name == b"IEND":
            if position != content.size:
                raise Malformed("something follows its end chunk")
            return
    raise Malformed("it has no end chunk")
