"""The formats that are recognised and not read: by their first bytes, and some by their name as well.

Pictures of model cards enter as they are; what runs code when it is loaded enters by an exemption, or not at
all, if name and bytes agree: a file that hides what it is enters under no exemption. The rest is refused,
with a word on what to do. Adding one is a line here.
"""

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from model_store.reading import Content, MalformedContent

UNPICKLED = "loading it can run code that it carries; convert it to safetensors"
DATA_ONLY = "a version holds data only"
_ARCHIVE = "an archive hides what it holds; import its files unpacked"


@dataclass(frozen=True, slots=True)
class RecognisedFormat:
    """`suffixes`: the names that it may have; none: whatever it is called."""

    begins: re.Pattern[bytes]
    words: str
    """As in "it is ..."."""
    format: str = ""
    suffixes: frozenset[str] = frozenset()


def _one(begins: bytes, words: str, format: str = "", suffixes: str = "") -> RecognisedFormat:
    return RecognisedFormat(re.compile(begins, re.DOTALL), words, format, frozenset(suffixes.split()))


def found(table: Iterable[RecognisedFormat], head: bytes, suffix: str = "") -> RecognisedFormat | None:
    """The first of the table that begins so, and may be called so where a `suffix` is given."""
    fitting = (one for one in table if not suffix or suffix in one.suffixes)
    return next((one for one in fitting if one.begins.match(head)), None)


_ZIP, _HDF5, _NUMPY, _PICKLE = rb"PK\x03\x04", rb"\x89HDF\r\n", rb"\x93NUMPY", rb"\x80[\x01-\x05]"
"""Pickles of protocol 2 and later begin with PROTO and their number."""
PICTURES = (
    _one(rb"\x89PNG\r\n\x1a\n", "a picture", "png", ".png"),
    _one(rb"\xff\xd8\xff", "a picture", "jpeg", ".jpg .jpeg"),
    _one(rb"GIF8[79]a", "a picture", "gif", ".gif"),
    _one(rb"RIFF....WEBP", "a picture", "webp", ".webp"),
)
SUFFIXES_OF_PICTURES = frozenset[str]().union(*(one.suffixes for one in PICTURES))
PICKLE, CHECKPOINT, NUMPY = "pickle", "pytorch", "numpy"
_OLD_PICKLES = ".pkl .pickle .joblib .dill"
_CHECKPOINTS = ".bin .pt .pth .ckpt"
_ARRAYS = "NumPy arrays, which can hold Python pickles"
RUNNABLE = (
    _one(_NUMPY, _ARRAYS, NUMPY, ".npy"),
    _one(_ZIP, _ARRAYS, NUMPY, ".npz"),
    _one(_HDF5, "an HDF5 file, as Keras writes", "hdf5", ".h5 .hdf5"),
    _one(_ZIP, "a Keras model", "keras", ".keras"),
    _one(_ZIP, "a PyTorch checkpoint, a ZIP archive of Python pickles", CHECKPOINT, _CHECKPOINTS),
    _one(_PICKLE, "a Python pickle", PICKLE, f"{_CHECKPOINTS} {_OLD_PICKLES}"),
)
"""Formats whose loaders run code that the file carries."""
FORMATS = frozenset(one.format for one in RUNNABLE)
OF_PICKLES = frozenset({PICKLE, CHECKPOINT, NUMPY})
"""Those that picklescan reads."""
SUFFIXES = frozenset[str]().union(*(one.suffixes for one in RUNNABLE))
_WORDS = {one.format: one.words for one in RUNNABLE}
REFUSED = (
    _one(_ZIP, f"a ZIP archive, as PyTorch checkpoints (.bin, .pt) are: {UNPICKLED}"),
    _one(rb"PK\x05\x06", f"a ZIP archive: {_ARCHIVE}"),
    _one(rb"\x7fELF", f"a Linux program or library (ELF): {DATA_ONLY}"),
    _one(rb"MZ", f"a Windows program or library: {DATA_ONLY}"),
    _one(rb"[\xce\xcf]\xfa\xed\xfe", f"a macOS program or library: {DATA_ONLY}"),
    _one(rb"\xca\xfe\xba\xbe", f"a Java class or macOS program: {DATA_ONLY}"),
    _one(rb"\x00asm", f"a WebAssembly program: {DATA_ONLY}"),
    _one(_HDF5, f"an HDF5 file, as Keras writes: {UNPICKLED}"),
    _one(_NUMPY, f"a NumPy array file: {UNPICKLED}"),
    _one(rb"\x1f\x8b", f"compressed with gzip: {_ARCHIVE}"),
    _one(rb"BZh", f"compressed with bzip2: {_ARCHIVE}"),
    _one(rb"\xfd7zXZ\x00", f"compressed with xz: {_ARCHIVE}"),
    _one(rb"\x28\xb5\x2f\xfd", f"compressed with zstd: {_ARCHIVE}"),
    _one(rb"7z\xbc\xaf\x27\x1c", f"a 7-Zip archive: {_ARCHIVE}"),
    _one(rb"Rar!", f"a RAR archive: {_ARCHIVE}"),
    _one(rb".{257}ustar", f"a tar archive: {_ARCHIVE}"),
    _one(rb"%PDF-", "a PDF, which can carry scripts; leave it out of the version"),
    _one(rb".{4}TFL3", "a TensorFlow Lite model; safetensors, GGUF and ONNX are served"),
    _one(rb"SQLite format 3", "a database; leave it out of the version"),
)
_FIRST_OF_OLD_PICKLES = b"(c]}lIFSVNdt"
_MAX_PICTURE_BYTES = 64 * 1024 * 1024
_CHUNK = struct.Struct(">I4s")


def format_of(path: str, content: Content) -> str | None:
    """Return the one of `FORMATS` that name and bytes agree on, or None."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in SUFFIXES:
        return None
    head = content.read_at(0, 16)
    if one := found(RUNNABLE, head, suffix):
        return one.format
    return PICKLE if suffix in _OLD_PICKLES.split() and _is_old_pickle(head, content) else None


def is_pickle(head: bytes) -> bool:
    return re.match(_PICKLE, head) is not None


def _is_old_pickle(head: bytes, content: Content) -> bool:
    """Protocols 0 and 1 have no mark of their own: an opcode begins them, and STOP ends them."""
    begins = bool(head) and head[0] in _FIRST_OF_OLD_PICKLES
    return begins and content.read_at(content.size - 1, 1) == b"."


def refusal(format: str) -> str:
    return (
        f"it is {_WORDS[format]}: {UNPICKLED}, or have an admin of the team exempt its model with formats "
        "that run code"
    )


def carried(format: str) -> str:
    words = _WORDS[format]
    return f"{words[0].upper()}{words[1:]}: loading it can run code that it carries."


def check_picture(content: Content, kind: str) -> None:
    """Malformed unless the picture fills the file: no archive or program rides along. It is not decoded."""
    if content.size > _MAX_PICTURE_BYTES:
        raise MalformedContent(f"a picture may have at most {_MAX_PICTURE_BYTES:,} bytes")
    tail = content.read_at(max(0, content.size - 2), 2)
    if kind == "png":
        _check_png(content)
    elif kind == "jpeg" and tail != b"\xff\xd9":
        raise MalformedContent("something follows its end marker")
    elif kind == "gif" and tail[-1:] != b";":
        raise MalformedContent("something follows its trailer")
    elif kind == "webp" and int.from_bytes(content.read_at(4, 4), "little") + 8 != content.size:
        raise MalformedContent("its length is not the one that it states")


def _check_png(content: Content) -> None:
    position = 8
    while position + 12 <= content.size:
        length, name = _CHUNK.unpack(content.read_at(position, 8))
        position += 12 + length
        if name == b"IEND":
            if position != content.size:
                raise MalformedContent("something follows its end chunk")
            return
    raise MalformedContent("it has no end chunk")
