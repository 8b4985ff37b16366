"""How a network is built, by its config or its GGUF header, and the memory of its KV cache.

Nobody vouches for these numbers: what is absent, of another type or absurd is unknown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trust.formats.gguf import Gguf

LARGEST_COUNT = 2**31
LARGEST_BYTES = 2**53
"""Browsers and JSON readers count exactly up to here."""
TOKENS = 1_000

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model", "dim")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num")
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_HYBRID = (
    "_block_types", "attn_layer_period", "attn_type_list", "block_types", "full_attention_interval",
    "hybrid_override_pattern", "layers_block_type", "mamba_d_state", "ssm_cfg", "state_size",
)  # fmt: skip
"""Keys of networks with layers that keep a state instead, such as Jamba, MiniMax, Nemotron-H, Qwen3-Next."""
_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "F32": 4, "F16": 2, "BF16": 2}
_COMPRESSED = "The KV cache is not known: its attention keeps a compressed one (kv_lora_rank)."
_NOT_ALL_LAYERS = "The KV cache is not known: not all of its layers keep keys and values of their own."


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions: base frequency, and how they are stretched beyond the original context."""

    theta: float | None = None
    scaling: str = ""
    factor: float | None = None
    original_context_length: int | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """Counts; None where the files do not tell. Of a model for text and pictures, its language part."""

    layers: int | None = None
    caching_layers: int | None = None
    """Layers that keep keys and values of past tokens; those with a sliding window are among them."""
    hidden_size: int | None = None
    attention_heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    """Elements of a key, per head."""
    value_head_dim: int | None = None
    vocabulary: int | None = None
    rope: Rope | None = None
    cache_dtype: str = ""
    """As `safetensors` names it; empty where it is not known."""
    other_cache: str = ""
    """Why its cache is none of plain keys and values, or not known to be, as a sentence."""


def kv_cache_bytes(network: Network) -> tuple[int | None, str]:
    """GPU memory that the keys and values of 1,000 tokens take, or why it is not known.

    1,000 x layers x kv_heads x (head_dim of keys + head_dim of values) x bytes per element, which is
    1,000 x 2 x layers x kv_heads x head_dim x bytes where both are of one size: section 3 of
    https://arxiv.org/abs/2309.06180. In one sequence; at most that where layers have a sliding window. The
    elements are of the model's own dtype, as vLLM keeps them, and F16 for GGUF, as llama.cpp does; an engine
    told otherwise (`--kv-cache-dtype fp8`) takes less. Paging rounds up, tensor parallelism divides.
    """
    if network.other_cache:
        return None, network.other_cache
    factors = {
        "layers": network.caching_layers,
        "KV heads": network.kv_heads,
        "elements per head": network.head_dim,
        "elements per value head": network.value_head_dim,
    }
    missing = [name for name, count in factors.items() if count is None]
    if missing:
        unknown = ", ".join(missing)
        why = f"The KV cache is not known: the files do not tell the number of {unknown}."  # untranslated
        return None, why
    if network.cache_dtype not in _BYTES:
        return None, "The KV cache is not known: the files do not tell the dtype of its elements."
    elements = (network.head_dim or 0) + (network.value_head_dim or 0)
    found = TOKENS * (network.caching_layers or 0) * (network.kv_heads or 0) * elements
    found *= _BYTES[network.cache_dtype]
    if found >= LARGEST_BYTES:
        return None, "The KV cache is not known: the numbers in its config are absurd."
    return found, ""


def network_of_config(config: Mapping[str, Any], *, dtype: str) -> Network:
    """Read config.json; `dtype` is that of most weights, for configs that name none."""
    part = _language_part(config)
    hidden, heads = _count(part, *_HIDDEN), _count(part, *_HEADS)
    layers = _count(part, *_LAYERS)
    head_dim = _count(part, "head_dim", "kv_channels") or _share(hidden, heads)
    types = part.get("layer_types")
    return Network(
        layers=layers,
        caching_layers=_caching(types) if isinstance(types, list) else layers,
        hidden_size=hidden,
        attention_heads=heads,
        # Code of its own may read other keys than these; transformers' own takes all heads then.
        kv_heads=_kv_heads(part) or (None if config.get("auto_map") else heads),
        head_dim=head_dim,
        value_head_dim=_count(part, "v_head_dim") or head_dim,
        vocabulary=_count(part, "vocab_size") or _count(config, "vocab_size"),
        rope=_rope(part),
        cache_dtype=_cache_dtype(part) or _cache_dtype(config) or (dtype if dtype in _BYTES else ""),
        other_cache=_other_cache(config, part),
    )


def _language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    parts = (config.get(name) for name in _TEXT_PARTS)
    return next((part for part in parts if isinstance(part, dict) and _count(part, *_LAYERS)), config)


def _count(values: Mapping[str, Any], *keys: str) -> int | None:
    """The first of the keys that holds a count."""
    found = (values.get(key) for key in keys)
    return next((int(value) for value in found if type(value) is int and 0 < value < LARGEST_COUNT), None)


def _number(value: Any) -> float | None:
    is_number = type(value) in (int, float) and abs(value) < LARGEST_BYTES and math.isfinite(value)
    return float(value) if is_number else None


def _share(hidden: int | None, heads: int | None) -> int | None:
    return hidden // heads if hidden and heads and hidden % heads == 0 else None


def _kv_heads(part: Mapping[str, Any]) -> int | None:
    # Falcon names the number of its heads although all of them share one key and value.
    if part.get("multi_query") is True and part.get("new_decoder_architecture") is not True:
        return 1
    nested = part.get("attn_config")
    return _count(part, *_KV_HEADS) or (_count(nested, "kv_n_heads") if isinstance(nested, dict) else None)


def _caching(types: Sequence[Any]) -> int | None:
    if not all(isinstance(one, str) for one in types):
        return None
    return sum("attention" in one and "linear" not in one for one in types) or None


def _cache_dtype(values: Mapping[str, Any]) -> str:
    named = values.get("torch_dtype") or values.get("dtype")
    short = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
    return short.get(named.removeprefix("torch."), "") if isinstance(named, str) else ""


def _other_cache(config: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    first = listed[0] if isinstance(listed, list) and listed else ""
    if config.get("is_encoder_decoder") is True:
        return "The KV cache is not known: an encoder-decoder keeps a second one, as large as its input."
    if not isinstance(first, str) or not first.endswith(_GENERATES):
        return "The KV cache is not known: its architecture is none that is known to generate text."
    if part.get("kv_lora_rank"):
        return _COMPRESSED
    if part.get("num_kv_shared_layers") or (
        not part.get("layer_types") and any(part.get(key) for key in _HYBRID)
    ):
        return _NOT_ALL_LAYERS
    return ""


def _rope(part: Mapping[str, Any]) -> Rope | None:
    described = part.get("rope_parameters") or part.get("rope_scaling")
    stretched: Mapping[str, Any] = described if isinstance(described, dict) else {}
    theta = _number(part.get("rope_theta"))
    kind = stretched.get("rope_type") or stretched.get("type")
    rope = Rope(
        theta=theta if theta is not None else _number(stretched.get("rope_theta")),
        scaling=kind[:40] if isinstance(kind, str) and kind != "default" else "",
        factor=_number(stretched.get("factor")),
        original_context_length=_count(stretched, "original_max_position_embeddings"),
    )
    return rope if rope != Rope() else None


def network_of_gguf(header: Gguf) -> Network:
    """Read a GGUF's keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md."""
    kind = f"{header.values.get('general.architecture', '')}."
    values = {key.removeprefix(kind): value for key, value in header.values.items() if key.startswith(kind)}
    hidden, heads = _count(values, "embedding_length"), _count(values, "attention.head_count")
    layers = _count(values, "block_count")
    head_dim = _count(values, "attention.key_length") or _share(hidden, heads)
    per_layer = f"{kind}attention.head_count_kv" in header.array_items
    return Network(
        layers=layers,
        caching_layers=layers,
        hidden_size=hidden,
        attention_heads=heads,
        kv_heads=_count(values, "attention.head_count_kv") or (None if per_layer else heads),
        head_dim=head_dim,
        value_head_dim=_count(values, "attention.value_length") or head_dim,
        vocabulary=_count(values, "vocab_size") or header.array_items.get("tokenizer.ggml.tokens"),
        rope=_gguf_rope(values),
        cache_dtype="F16",
        other_cache=_other_gguf_cache(values),
    )


def _gguf_rope(values: Mapping[str, Any]) -> Rope | None:
    kind = values.get("rope.scaling.type")
    rope = Rope(
        theta=_number(values.get("rope.freq_base")),
        scaling=kind[:40] if isinstance(kind, str) and kind != "none" else "",
        factor=_number(values.get("rope.scaling.factor")),
        original_context_length=_count(values, "rope.scaling.original_context_length"),
    )
    return rope if rope != Rope() else None


def _other_gguf_cache(values: Mapping[str, Any]) -> str:
    if values.get("attention.causal") is False:
        return "It has no KV cache: its attention is not causal, so it does not generate text."
    if "attention.kv_lora_rank" in values:
        return _COMPRESSED
    if values.get("attention.shared_kv_layers") or any(key.startswith("ssm.") for key in values):
        return _NOT_ALL_LAYERS
    return ""
