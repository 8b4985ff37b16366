"""Formats whose loaders run code that the file carries: they enter by an exemption, or not at all.

Name and bytes must agree. A file that hides what it is enters under no exemption.
"""

from pathlib import PurePosixPath

from model_store.reading import Content

PICKLE, CHECKPOINT, NUMPY, HDF5, KERAS = "pickle", "pytorch", "numpy", "hdf5", "keras"
WORDS = {
    PICKLE: "a Python pickle",
    CHECKPOINT: "a PyTorch checkpoint, a ZIP archive of Python pickles",
    NUMPY: "NumPy arrays, which can hold Python pickles",
    HDF5: "an HDF5 file, as Keras writes",
    KERAS: "a Keras model",
}
FORMATS = frozenset(WORDS)
OF_PICKLES = frozenset({PICKLE, CHECKPOINT, NUMPY})
"""Those that picklescan reads."""
_ZIP, _HDF5, _NUMPY = b"PK\x03\x04", b"\x89HDF\r\n", b"\x93NUMPY"
_CHECKPOINTS = {".bin", ".pt", ".pth", ".ckpt"}
_PICKLES = {".pkl", ".pickle", ".joblib", ".dill"}
_BEGINNINGS = {
    ".npy": (_NUMPY, NUMPY),
    ".npz": (_ZIP, NUMPY),
    ".h5": (_HDF5, HDF5),
    ".hdf5": (_HDF5, HDF5),
    ".keras": (_ZIP, KERAS),
}
_FIRST_OF_OLD_PICKLES = b"(c]}lIFSVNdt"
SUFFIXES = frozenset(_CHECKPOINTS | _PICKLES | _BEGINNINGS.keys())


def format_of(path: str, content: Content) -> str | None:
    """Which of `FORMATS` the file is by its name and its bytes alike; None: none of them."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix not in SUFFIXES:
        return None
    head = content.read_at(0, 16)
    if suffix in _BEGINNINGS:
        beginning, format = _BEGINNINGS[suffix]
        return format if head.startswith(beginning) else None
    if suffix in _CHECKPOINTS and head.startswith(_ZIP):
        return CHECKPOINT
    return PICKLE if is_pickle(head) or (suffix in _PICKLES and _is_old_pickle(head, content)) else None


def is_pickle(head: bytes) -> bool:
    """Protocol 2 and later begin with PROTO and their number."""
    return len(head) > 1 and head[0] == 0x80 and head[1] in range(1, 6)


def _is_old_pickle(head: bytes, content: Content) -> bool:
    """Protocols 0 and 1 have no mark of their own: an opcode begins them, and STOP ends them."""
    begins = bool(head) and head[0] in _FIRST_OF_OLD_PICKLES
    return begins and content.read_at(content.size - 1, 1) == b"."


def refusal(format: str) -> str:
    return (
        f"it is {WORDS[format]}: loading it can run code that it carries; convert it to safetensors, or have "
        "an admin of the team exempt its model with formats that run code"
    )


def carried(format: str) -> str:
    words = WORDS[format]
    return f"{words[0].upper()}{words[1:]}: loading it can run code that it carries."
