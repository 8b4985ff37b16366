"""What a file is by its bytes, and whether the files of a version may enter together.

Only formats that carry data and cannot carry code pass: safetensors, GGUF, ONNX, SentencePiece, text and the
pictures of a model card. Nothing is unpickled, unpacked, rendered or executed. What is not recognised is
refused, with a reason that says what it seems to be and what to do instead. Python is told apart from text:
it enters, and keeps its version from being served until the team exempts it. Formats that run code when they
are loaded (`recognised`) do not even enter without an exemption.
"""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from model_store.errors import FileRefused
from model_store.reading import Content, ContentTooLarge, MalformedContent
from trust.formats import code, gguf, onnx, recognised, safetensors, sentencepiece, text
from trust.formats.gguf import Gguf
from trust.formats.safetensors import SafetensorsHeader

RAW = "raw"
"""Bytes of no known format: allowed only as the external data of an ONNX file of the same version."""

_FORMAT_BY_SUFFIX = {
    ".safetensors": "safetensors", ".gguf": "gguf", ".onnx": "onnx", ".json": "json",
    **{suffix: one.format for one in recognised.PICTURES for suffix in one.suffixes},
}  # fmt: skip
_SUFFIXES_OF_CODE = {
    ".pyi", ".pyx", ".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib", ".exe", ".com", ".scr", ".msi",
    ".sh", ".bash", ".zsh", ".fish", ".bat", ".cmd", ".ps1", ".vbs", ".js", ".mjs", ".cjs", ".ts", ".jar",
    ".class", ".rb", ".pl", ".php", ".lua", ".r", ".jl", ".wasm", ".cu", ".cpp", ".cc", ".c", ".h", ".hpp",
    ".rs", ".go",
}  # fmt: skip
_SUFFIXES_OF_PICKLES = {
    ".pkl",
    ".pickle",
    ".pt",
    ".pth",
    ".ckpt",
    ".bin",
    ".joblib",
    ".dill",
    ".npy",
    ".npz",
    ".mar",
}
_SUFFIXES_OF_MARKUP = {".svg", ".svgz", ".html", ".htm", ".xhtml", ".mhtml"}
_MARKUP = (b"<!doctype html", b"<html", b"<svg", b"<script")
_RENDERED_SAFELY = {".md", ".markdown"}
"""Model cards may hold any of it: nothing of it is shown that could run, see `facts.readme`."""
_IS_MARKUP = (
    "it is a web page or an SVG picture, which can carry scripts; make a picture a PNG, and leave pages out"
)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
_SHARD_INDEX_SUFFIXES = (".safetensors.index.json",)
_KEPT_JSON_BYTES = 1024 * 1024
_MAX_CONFIG_BYTES = 8 * 1024 * 1024
"""Some tokenizer configs list thousands of added tokens and have more than one."""
_KEPT_JSON = {
    "config.json", "generation_config.json", "tokenizer_config.json", "adapter_config.json",
    "model_index.json", "preprocessor_config.json", "processor_config.json", "special_tokens_map.json",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class IdentifiedFile:
    """An identified file. `json` is kept for configs and shard indexes alone; `external_data` are paths in
    the
    version; `names_code` are the names in its `auto_map`.
    """

    path: str
    format: str
    tensors: SafetensorsHeader | None = None
    gguf: Gguf | None = None
    json: Any = None
    external_data: frozenset[str] = field(default=frozenset())
    names_code: tuple[str, ...] = ()


def check_name(path: str, *, admits_runnable: bool = False) -> None:
    """Refused when the name alone tells that the file may not enter; `identify` says so too."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _SUFFIXES_OF_CODE:
        raise _is_code(path, suffix)
    if suffix in _SUFFIXES_OF_PICKLES and not (admits_runnable and suffix in recognised.SUFFIXES):
        raise _is_pickle(path)


def _is_code(path: str, suffix: str) -> FileRefused:
    return FileRefused(
        path,
        f"it is program code ({suffix}); of code, only Python modules (.py) may enter: "
        f"{recognised.DATA_ONLY}",
    )


def check_size(path: str, size: int) -> None:
    """Refused when name and size tell that the file may not enter; `identify` says so too."""
    name = PurePosixPath(path).name
    if name in _KEPT_JSON and size > _MAX_CONFIG_BYTES:
        raise FileRefused(path, f"it has {size:,} bytes; a config may have at most {_MAX_CONFIG_BYTES:,}")
    if PurePosixPath(path).suffix.lower() == ".json" and size > text.MAX_JSON_BYTES:
        raise FileRefused(
            path, f"it has {size:,} bytes; a JSON file may have at most {text.MAX_JSON_BYTES:,}"
        )


def _is_pickle(path: str) -> FileRefused:
    return FileRefused(path, f"it is, or is loaded as, a Python pickle: {recognised.UNPICKLED}")


def identify(path: str, content: Content, *, admits_runnable: bool = False) -> IdentifiedFile:
    """Identify the file at `path` by its bytes; return Refused with the reason when it may not enter.

    Bytes of no known format come back as `raw`: `check_together` decides about them. `admits_runnable`: an
    exemption lets formats enter that run code when they are loaded.
    """
    format = recognised.format_of(path, content)
    if format and not admits_runnable:
        raise FileRefused(path, recognised.refusal(format))
    if format:
        return IdentifiedFile(path, format)
    try:
        return _identify(path, content)
    except ContentTooLarge as fault:
        raise FileRefused(path, str(fault)) from None
    except MalformedContent as fault:
        suffix = PurePosixPath(path).suffix.lower()
        claimed = "Python" if suffix == code.SUFFIX else _FORMAT_BY_SUFFIX.get(suffix, "text")
        raise FileRefused(path, f"it is not valid {_words(claimed)}: {fault}{_seems(content)}") from None


def _identify(path: str, content: Content) -> IdentifiedFile:
    suffix = PurePosixPath(path).suffix.lower()
    head = content.read_at(0, 512)
    if head.startswith(_LFS_POINTER):
        raise FileRefused(
            path, "it is a Git LFS pointer, not the file itself; run `git lfs pull` in the directory first"
        )
    if suffix in _SUFFIXES_OF_CODE:
        raise _is_code(path, suffix)
    claimed = _FORMAT_BY_SUFFIX.get(suffix)
    if claimed == "safetensors":
        return IdentifiedFile(path, "safetensors", tensors=safetensors.parse(_not_also_zip(content)))
    if claimed == "gguf" or (claimed is None and head.startswith(gguf.MAGIC)):
        if claimed is None:
            raise FileRefused(path, "its content is GGUF but its name is not; rename it to end in .gguf")
        return IdentifiedFile(path, "gguf", gguf=gguf.parse(_not_also_zip(content)))
    if claimed == "onnx":
        return _onnx(path, _not_also_zip(content))
    picture = recognised.found(recognised.PICTURES, head)
    if picture or suffix in recognised.SUFFIXES_OF_PICTURES:
        seen = picture.format if picture else "no picture"
        if seen != claimed:
            raise FileRefused(path, f"its name says {claimed or 'no picture'} but its content is {seen}")
        recognised.check_picture(_not_also_zip(content), seen)
        return IdentifiedFile(path, seen)
    if refused := recognised.found(recognised.REFUSED, head):
        raise FileRefused(path, f"it is {refused.words}")
    return _text_or_raw(path, content, suffix=suffix, head=head)


def _text_or_raw(path: str, content: Content, *, suffix: str, head: bytes) -> IdentifiedFile:
    if suffix in _SUFFIXES_OF_PICKLES or recognised.is_pickle(head):
        raise _is_pickle(path)
    if suffix == ".json":
        check_size(path, content.size)
        text.check(content)
        name = PurePosixPath(path).name
        value = text.parse_json(content)
        kept = name.endswith(_SHARD_INDEX_SUFFIXES) or (
            name in _KEPT_JSON and content.size <= _KEPT_JSON_BYTES
        )
        return IdentifiedFile(path, "json", json=value if kept else None, names_code=code.named_in(value))
    if suffix in _SUFFIXES_OF_MARKUP or (
        suffix not in _RENDERED_SAFELY and head.lstrip().lower().startswith(_MARKUP)
    ):
        raise FileRefused(path, _IS_MARKUP)
    try:
        text.check(content)
    except MalformedContent:
        if suffix == ".model":
            sentencepiece.parse(_not_also_zip(content))
            return IdentifiedFile(path, "sentencepiece")
        _not_also_zip(content)
        if suffix == code.SUFFIX:
            raise
        return IdentifiedFile(path, RAW)
    if suffix == code.SUFFIX:
        _not_also_zip(content)
        return IdentifiedFile(path, code.FORMAT)
    if head.startswith(b"#!"):
        raise FileRefused(path, f"it begins with '#!', so it is a script: {recognised.DATA_ONLY}")
    return IdentifiedFile(path, "text")


def _onnx(path: str, content: Content) -> IdentifiedFile:
    directory = PurePosixPath(path).parent
    external = frozenset(str(directory / name) for name in onnx.external_data_of(content))
    return IdentifiedFile(path, "onnx", external_data=external)


def _not_also_zip(content: Content) -> Content:
    """`content`, or Malformed when a ZIP directory ends exactly where the file ends: a polyglot."""
    tail = content.read_at(max(0, content.size - 65_557), 65_557)
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        if len(tail) - at >= 22 and int.from_bytes(tail[at + 20 : at + 22], "little") == len(tail) - at - 22:
            raise MalformedContent("a ZIP archive rides in it (its directory stands at the end)")
        at = tail.rfind(b"PK\x05\x06", 0, at)
    return content


def _words(claimed: str) -> str:
    return {"json": "JSON", "gguf": "GGUF", "onnx": "ONNX", "png": "PNG", "jpeg": "JPEG"}.get(
        claimed, claimed
    )


def _seems(content: Content) -> str:
    """Say what refused bytes look like, as the end of a sentence."""
    head = content.read_at(0, 512)
    if recognised.is_pickle(head):
        return f". It begins like a Python pickle: {recognised.UNPICKLED}"
    refused = recognised.found(recognised.REFUSED, head)
    return f". In fact it is {refused.words}" if refused else ""


def check_together(files: list[IdentifiedFile]) -> tuple[list[FileRefused], list[IdentifiedFile]]:
    """Check all files of a version together: return refusals, and the files with `raw` resolved."""
    paths = {file.path for file in files}
    refusals: list[FileRefused] = []
    external = {path: file.path for file in files for path in file.external_data}
    for path, owner in external.items():
        if path not in paths:
            refusals.append(
                FileRefused(owner, f"it needs the file '{path}' for its tensors, which is not there")
            )
    settled = []
    for file in files:
        if file.format == RAW and file.path not in external:
            refusals.append(
                FileRefused(
                    file.path,
                    "it is none of safetensors, GGUF, ONNX, SentencePiece, text (UTF-8) or a picture",
                )
            )
        settled.append(IdentifiedFile(file.path, "onnx-data") if file.format == RAW else file)
        if file.path.endswith(_SHARD_INDEX_SUFFIXES):
            refusals.extend(_missing_shards(file, paths))
    return refusals, settled


def _missing_shards(index: IdentifiedFile, paths: set[str]) -> list[FileRefused]:
    weight_map = index.json.get("weight_map") if isinstance(index.json, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        return [FileRefused(index.path, "it has no 'weight_map' from tensors to files")]
    directory = PurePosixPath(index.path).parent
    missing = sorted({shard for shard in weight_map.values() if str(directory / shard) not in paths})
    return [
        FileRefused(index.path, f"it names '{shard[:200]}', which is not there") for shard in missing[:10]
    ]
