"""What a version is, summed up from its config and its weights' headers."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from models_registry.contents import Identified
from models_registry.contents.gguf import Gguf

MAX_CONFIG_BYTES = 65_536
MAX_TEXT = 4_000
_CONTEXT_KEYS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`parameters` counts the elements of the weights that a loader would read; None where no header tells.

    `config` is config.json, or a GGUF's scalar keys, cleaned so that any database stores it; empty when
    larger than 64 KiB. `notes` are sentences that an approver should read.
    """

    architecture: str = ""
    parameters: int | None = None
    context_length: int | None = None
    dtype: str = ""
    quantization: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def facts_of(files: Sequence[Identified]) -> ModelFacts:
    by_path = {file.path: file for file in files}
    found = by_path["config.json"].json if "config.json" in by_path else None
    config = found if isinstance(found, dict) else {}
    weights = [file.tensors.elements_by_dtype for file in _weights(files, by_path) if file.tensors]
    ggufs = [file.gguf for file in files if file.gguf]
    if ggufs and not weights:
        return _gguf_facts(ggufs, config, notes=_notes(config, files))
    elements = _summed(weights)
    return ModelFacts(
        architecture=_architecture(config),
        parameters=sum(elements.values()) if weights else None,
        context_length=_context_length(config),
        dtype=_most(elements),
        quantization=_quantization(config),
        config=_bounded(config),
        notes=_notes(config, files),
    )


def _weights(files: Sequence[Identified], by_path: Mapping[str, Identified]) -> list[Identified]:
    """The safetensors files that a loader reads: a second copy in other shards does not count twice."""
    index = by_path.get("model.safetensors.index.json")
    if index and isinstance(index.json, dict) and isinstance(index.json.get("weight_map"), dict):
        named = set(index.json["weight_map"].values())
        return [file for file in files if file.path in named]
    if "model.safetensors" in by_path:
        return [by_path["model.safetensors"]]
    return [file for file in files if file.tensors]


def _summed(counts: Sequence[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _most(elements: Mapping[str, int]) -> str:
    return max(elements, key=lambda dtype: elements[dtype], default="")


def _architecture(config: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    first = listed[0] if isinstance(listed, list) and listed else config.get("model_type")
    return storable(first)[:200] if isinstance(first, str) else ""


def _context_length(config: Mapping[str, Any]) -> int | None:
    inner = config.get("text_config")
    for source in (config, inner if isinstance(inner, dict) else {}):
        for key in _CONTEXT_KEYS:
            if _is_count(source.get(key)):
                return int(source[key])
    return None


def _quantization(config: Mapping[str, Any]) -> str:
    described = config.get("quantization_config")
    method = described.get("quant_method", "yes") if isinstance(described, dict) else ""
    return storable(method)[:40] if isinstance(method, str) else "yes"


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**53


def _notes(config: Mapping[str, Any], files: Sequence[Identified]) -> tuple[str, ...]:
    notes = []
    if config.get("auto_map"):
        notes.append("config.json names code of its own (auto_map); workers never run it.")
    if not any(file.tensors or file.gguf or file.format == "onnx" for file in files):
        notes.append("No weights: no safetensors, GGUF or ONNX file.")
    if not any(PurePosixPath(file.path).name.lower() == "readme.md" for file in files):
        notes.append("No model card (README.md).")
    return tuple(notes)


def _gguf_facts(ggufs: Sequence[Gguf], config: Mapping[str, Any], *, notes: tuple[str, ...]) -> ModelFacts:
    """Of several GGUF files, all count when they are parts of one (`split.count`), else the first one."""
    first = next((gguf for gguf in ggufs if "general.architecture" in gguf.values), ggufs[0])
    architecture = str(first.values.get("general.architecture", ""))
    context = first.values.get(f"{architecture}.context_length")
    is_split = _is_count(first.values.get("split.count")) and first.values["split.count"] != 1
    elements = _summed([gguf.elements_by_type for gguf in (ggufs if is_split else [first])])
    dtype = _most(elements)
    return ModelFacts(
        architecture=storable(architecture)[:200],
        parameters=sum(elements.values()),
        context_length=int(context) if isinstance(context, int) and _is_count(context) else None,
        dtype=dtype,
        quantization=dtype if "Q" in dtype else "",
        config=_bounded(config or first.values),
        notes=notes,
    )


def _bounded(config: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = storable(dict(config))
    return kept if len(json.dumps(kept)) <= MAX_CONFIG_BYTES else {}


def storable(value: Any) -> Any:
    """`value` as every database takes it: no NULs or lone surrogates in texts, no NaN, no endless numbers."""
    if isinstance(value, str):
        return value[:MAX_TEXT].replace("\x00", "").encode("utf-8", "replace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= 2**63:
        return str(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
