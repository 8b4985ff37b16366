"""What a version is, summed up from its config and its weights' headers."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from common import characters
from trust.formats.gguf import FILE_TYPES, TYPES, Gguf
from trust.formats.identification import IdentifiedFile
from trust.formats.network import LARGEST_BYTES, Network, kv_cache_bytes, network_of_config, network_of_gguf
from trust.formats.safetensors import BITS, SafetensorsHeader

MAX_CONFIG_BYTES = 65_536
MAX_TEXT = 4_000
WEIGHT_FORMATS = (("safetensors", "safetensors"), ("gguf", "GGUF"), ("onnx", "ONNX"))
"""What `details_of` calls the format of a version's weights, and how people do."""
_CONTEXT_KEYS = (
    "max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`parameters` counts the weights that a loader would read, packed ones as what they are unpacked; None
    where no header tells.

    `config` is config.json, or a GGUF's scalar keys, cleaned so that any database stores it; empty when
    larger than 64 KiB. `details` is what `details_of` makes. `notes` are sentences that an approver should
    read.
    """

    architecture: str = ""
    parameters: int | None = None
    context_length: int | None = None
    dtype: str = ""
    quantization: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quantization:
    """The quantisation of weights: `bits` of one weight and `group_size` weights per scale, if known."""

    method: str
    bits: int | None = None
    group_size: int | None = None


def facts_of(files: Sequence[IdentifiedFile]) -> ModelFacts:
    by_path = {file.path: file for file in files}
    found = by_path["config.json"].json if "config.json" in by_path else None
    config = found if isinstance(found, dict) else {}
    weights = [file.tensors for file in _weights(files, by_path) if file.tensors]
    ggufs = [file.gguf for file in files if file.gguf]
    notes = _notes(files)
    if ggufs and not weights:
        return _gguf_facts(ggufs, config, notes=notes)
    elements = _summed([tensors.elements_by_dtype for tensors in weights])
    dtype = _most(elements)
    quantization = quantization_of(config)
    return ModelFacts(
        architecture=_architecture(config),
        parameters=_parameters(weights, quantization),
        context_length=_context_length(config),
        dtype=dtype,
        quantization=quantization.method if quantization else "",
        config=_bounded(config),
        details=details_of(
            network_of_config(config, dtype=dtype),
            format="safetensors" if weights else _other_format(files),
            tensors=sum(tensors.count for tensors in weights),
            elements=elements,
            bytes_of=_safetensors_bytes,
            quantization=quantization,
        ),
        notes=notes,
    )


def details_of(
    network: Network,
    *,
    format: str,
    tensors: int,
    elements: Mapping[str, int],
    bytes_of: Callable[[str, int], int | None],
    quantization: Quantization | None,
) -> dict[str, Any]:
    """Return a version's `facts` as JSON.

    `memory.weights_bytes` is the GPU memory of the weights: the sum over all tensors of elements x bits / 8,
    as they are stored. An engine that converts them while it loads takes more or less, and each adds a share
    of its own (CUDA context, activations). `memory.kv_cache_bytes_per_1k_tokens`: see
    `network.kv_cache_bytes`. An unknown value is null, and `unknown` says why.
    """
    weights = [
        {"dtype": dtype, "elements": _exact(count), "bytes": _exact(bytes_of(dtype, count))}
        for dtype, count in sorted(elements.items(), key=lambda one: -one[1])
    ]
    known = [size for dtype, count in elements.items() if (size := bytes_of(dtype, count)) is not None]
    weights_bytes = _exact(sum(known)) if known and len(known) == len(elements) else None
    cache_bytes, why_no_cache = kv_cache_bytes(network)
    unknown = [why_no_cache] if why_no_cache else []
    if weights_bytes is None:
        unknown.insert(0, "The size of the weights is not known: no header tells all their tensors.")
    shape = asdict(network)
    for name in ("caching_layers", "cache_dtype", "other_cache", "value_head_dim"):
        del shape[name]
    details: dict[str, Any] = {
        "format": format,
        "tensors": tensors,
        "weights": weights,
        **shape,
        "quantization": asdict(quantization) if quantization else None,
        "memory": {
            "weights_bytes": weights_bytes,
            "kv_cache_bytes_per_1k_tokens": cache_bytes,
            "kv_cache_dtype": network.cache_dtype if cache_bytes is not None else "",
        },
        "unknown": unknown,
    }
    cleaned: dict[str, Any] = storable(details)
    return cleaned


def _exact(count: int | None) -> int | None:
    """Return the count, or None if neither a database nor a browser counts it exactly; real weights are
    far smaller.
    """
    return count if count is not None and count < LARGEST_BYTES else None


def _safetensors_bytes(dtype: str, elements: int) -> int:
    return elements * BITS[dtype] // 8


def _gguf_bytes(kind: str, elements: int) -> int | None:
    return next((elements // block * size for name, block, size in TYPES.values() if name == kind), None)


def _parameters(weights: Sequence[SafetensorsHeader], quantization: Quantization | None) -> int | None:
    """Packed weights count by the bits of one; None where these are not told."""
    packed_bits = sum(tensors.packed_bits for tensors in weights)
    bits = quantization.bits if quantization else None
    if not weights or (packed_bits and not bits):
        return None
    elements = sum(tensors.elements for tensors in weights)
    if quantization is None:
        return elements
    unpacked = packed_bits // bits if packed_bits and bits else 0
    return elements - sum(tensors.not_weights for tensors in weights) + unpacked


def _other_format(files: Sequence[IdentifiedFile]) -> str:
    return "onnx" if any(file.format == "onnx" for file in files) else ""


def _weights(files: Sequence[IdentifiedFile], by_path: Mapping[str, IdentifiedFile]) -> list[IdentifiedFile]:
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


def quantization_of(config: Mapping[str, Any]) -> Quantization | None:
    """Read `quantization_config` in the words of transformers and of compressed-tensors."""
    described = config.get("quantization_config")
    if not isinstance(described, dict):
        return None
    method = described.get("quant_method", "yes")
    weights = _first_group(described)
    named = [described.get("bits"), described.get("w_bit"), weights.get("num_bits")]
    if described.get("load_in_4bit") is True or method == "mxfp4":
        named.append(4)
    if described.get("load_in_8bit") is True or method == "fp8":
        named.append(8)
    sizes = (described.get("group_size"), described.get("q_group_size"), weights.get("group_size"))
    return Quantization(
        method=storable(method)[:40] if isinstance(method, str) else "yes",
        bits=next((bits for bits in named if type(bits) is int and 0 < bits <= 64), None),
        group_size=next((size for size in sizes if _is_count(size)), None),
    )


def _first_group(described: Mapping[str, Any]) -> Mapping[str, Any]:
    groups = described.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict) and isinstance(group.get("weights"), dict):
            weights: Mapping[str, Any] = group["weights"]
            return weights
    return {}


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**53


def _notes(files: Sequence[IdentifiedFile]) -> tuple[str, ...]:
    notes = []
    if not any(file.tensors or file.gguf or file.format == "onnx" for file in files):
        notes.append("No weights: no safetensors, GGUF or ONNX file.")
    if not any(PurePosixPath(file.path).name.lower() == "readme.md" for file in files):
        notes.append("No model card (README.md).")
    return tuple(notes)


def _gguf_facts(ggufs: Sequence[Gguf], config: Mapping[str, Any], *, notes: tuple[str, ...]) -> ModelFacts:
    """Combine GGUF files: all count when they are parts of one (`split.count`), else the first one."""
    first = next((gguf for gguf in ggufs if "general.architecture" in gguf.values), ggufs[0])
    architecture = str(first.values.get("general.architecture", ""))
    context = first.values.get(f"{architecture}.context_length")
    is_split = _is_count(first.values.get("split.count")) and first.values["split.count"] != 1
    parts = ggufs if is_split else [first]
    elements = _summed([gguf.elements_by_type for gguf in parts])
    dtype = _most(elements)
    kind = first.values.get("general.file_type")
    called = FILE_TYPES.get(kind, dtype) if type(kind) is int else dtype
    quantization = Quantization(called) if "Q" in called or "MXFP4" in called else None
    return ModelFacts(
        architecture=storable(architecture)[:200],
        parameters=_exact(sum(elements.values())),
        context_length=int(context) if isinstance(context, int) and _is_count(context) else None,
        dtype=dtype,
        quantization=quantization.method if quantization else "",
        config=_bounded(config or first.values),
        details=details_of(
            network_of_gguf(first),
            format="gguf",
            tensors=sum(gguf.tensors for gguf in parts),
            elements=elements,
            bytes_of=_gguf_bytes,
            quantization=quantization,
        ),
        notes=notes,
    )


def _bounded(config: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = storable(dict(config))
    return kept if len(json.dumps(kept)) <= MAX_CONFIG_BYTES else {}


def storable(value: Any) -> Any:
    """`value` as every database takes it: no NULs or lone surrogates in texts, no NaN, no number
    beyond 64 bits."""
    if isinstance(value, str):
        return characters.storable(value[:MAX_TEXT])
    # jsonb keeps a large float as an integer; what 64 bits do not hold stays what its author wrote, as text.
    if isinstance(value, float) and not abs(value) < 2**63:
        return str(value)
    if isinstance(value, int) and abs(value) >= 2**63:
        return str(value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
