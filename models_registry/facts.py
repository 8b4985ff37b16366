"""What a version is, summed up from its config and weight headers: architecture, parameters, context, dtype."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from models_registry.contents import Identified

_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
_KEPT_KEYS = (
    "model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "tie_word_embeddings", "rope_theta", "sliding_window",
    "num_experts", "num_local_experts", "num_experts_per_tok", "transformers_version",
)  # fmt: skip
_MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`parameters` counts the elements of the weights that a loader would read; None where no header tells.

    `config` is flat, its values are JSON scalars; `notes` are sentences that an approver should read.
    """

    architecture: str = ""
    parameters: int | None = None
    context_length: int | None = None
    dtype: str = ""
    config: dict[str, str | int | float | bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def facts_of(files: Sequence[Identified]) -> ModelFacts:
    by_path = {file.path: file for file in files}
    config = by_path["config.json"].json if "config.json" in by_path else None
    config = config if isinstance(config, dict) else {}
    weights = _weights(files, by_path)
    if weights:
        elements: Counter[str] = Counter()
        for file in weights:
            elements.update(file.tensors.elements_by_dtype if file.tensors else {})
        return ModelFacts(
            architecture=_architecture(config),
            parameters=sum(elements.values()),
            context_length=_context_length(config),
            dtype=max(elements, key=lambda dtype: elements[dtype], default=""),
            config=_summary(config),
            notes=_notes(config, files),
        )
    ggufs = [file.gguf for file in files if file.gguf]
    if ggufs:
        return _gguf_facts(ggufs, config, files)
    return ModelFacts(
        _architecture(config), None, _context_length(config), "", _summary(config), _notes(config, files)
    )


def _weights(files: Sequence[Identified], by_path: dict[str, Identified]) -> list[Identified]:
    """The safetensors files that a loader reads, so that a second copy in other shards does not count twice."""
    found = [file for file in files if file.tensors]
    index = by_path.get("model.safetensors.index.json")
    if index and isinstance(index.json, dict) and isinstance(index.json.get("weight_map"), dict):
        named = set(index.json["weight_map"].values())
        return [file for file in found if file.path in named]
    if "model.safetensors" in by_path:
        return [by_path["model.safetensors"]]
    return found


def _architecture(config: dict[str, Any]) -> str:
    listed = config.get("architectures")
    first = listed[0] if isinstance(listed, list) and listed else config.get("model_type", "")
    return clean(first) if isinstance(first, str) else ""


def _context_length(config: dict[str, Any]) -> int | None:
    inner = config.get("text_config")
    for source in (config, inner if isinstance(inner, dict) else {}):
        for key in _CONTEXT_KEYS:
            if type(source.get(key)) is int and 0 < source[key] < 2**53:
                return int(source[key])
    return None


def _summary(config: dict[str, Any]) -> dict[str, str | int | float | bool]:
    summary = {key: clean(config[key]) for key in _KEPT_KEYS if _is_scalar(config.get(key))}
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict):
        method = quantization.get("quant_method")
        summary["quantization"] = clean(method) if isinstance(method, str) else "yes"
    return summary


def _is_scalar(value: Any) -> bool:
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 2**53)


def clean(value: Any) -> Any:
    """`value` as any database stores it: text without NULs and lone surrogates, and not long."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode("utf-8", "replace").decode()[:_MAX_TEXT]
    return value


def _notes(config: dict[str, Any], files: Sequence[Identified]) -> tuple[str, ...]:
    notes = []
    if config.get("auto_map"):
        notes.append("config.json names code of its own (auto_map); workers never run it.")
    if not any(file.tensors or file.gguf or file.format == "onnx" for file in files):
        notes.append("No weights: no safetensors, GGUF or ONNX file.")
    if not any(PurePosixPath(file.path).name.lower() == "readme.md" for file in files):
        notes.append("No model card (README.md).")
    return tuple(notes)


def _gguf_facts(ggufs: list[Any], config: dict[str, Any], files: Sequence[Identified]) -> ModelFacts:
    first = next((gguf for gguf in ggufs if "general.architecture" in gguf.values), ggufs[0])
    architecture = clean(str(first.values.get("general.architecture", "")))
    context = first.values.get(f"{architecture}.context_length")
    split = first.values.get("split.count")
    counted = ggufs if type(split) is int and split > 1 else [first]
    elements: Counter[str] = Counter()
    for gguf in counted:
        elements.update(gguf.elements_by_type)
    kept = {
        key: clean(value)
        for key, value in first.values.items()
        if key.startswith(("general.", f"{architecture}.")) and _is_scalar(value)
    }
    return ModelFacts(
        architecture=architecture,
        parameters=sum(elements.values()),
        context_length=context if type(context) is int and 0 < context < 2**53 else None,
        dtype=max(elements, key=lambda dtype: elements[dtype], default=""),
        config={**_summary(config), **dict(list(kept.items())[:100])},
        notes=_notes(config, files),
    )
