"""Safetensors: https://github.com/huggingface/safetensors#format, as strict as its reference reader."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from model_store.reading import Content, MalformedContent

# The reference reader allows 100 MB; a header of a model with 100,000 tensors has 15 MB.
MAX_HEADER_BYTES = 32 * 1024 * 1024
MAX_DIMENSIONS = 64

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
    "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip


# Tensors whose integers hold several quantised weights each, and those that say how to read them, by the
# ends of their names: GPTQ and AWQ, compressed-tensors, MXFP4, bitsandbytes.
_PACKED = (".qweight", ".weight_packed", "_blocks")
_BESIDE = (
    ".qzeros", ".scales", ".g_idx", ".weight_scale", ".weight_scale_inv", ".weight_zero_point",
    ".weight_g_idx", ".weight_shape", ".weight_global_scale", ".input_scale", "_scales", ".absmax",
    ".quant_map", ".nested_absmax", ".nested_quant_map", ".quant_state.bitsandbytes__nf4",
    ".quant_state.bitsandbytes__fp4",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SafetensorsHeader:
    """The contents of a header: number of tensors and elements, elements per dtype, the writer's metadata.

    `packed_bits` are the bits of tensors whose elements hold several weights each; these elements, and those
    of scales and the like that go with quantised weights, are `not_weights`.
    """

    count: int
    elements: int
    elements_by_dtype: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    packed_bits: int = 0
    not_weights: int = 0


def parse(content: Content) -> SafetensorsHeader:
    """The header of a file whose every byte is accounted for; else Malformed."""
    if content.size < 8:
        raise MalformedContent("it is shorter than its 8-byte header length")
    length = int.from_bytes(content.read_at(0, 8), "little")
    if length > MAX_HEADER_BYTES:
        raise MalformedContent(
            f"its header claims {length:,} bytes; at most {MAX_HEADER_BYTES:,} are allowed"
        )
    if length > content.size - 8:
        raise MalformedContent(f"its header claims {length:,} bytes but only {content.size - 8:,} follow")
    header = content.read_at(8, length)
    if not header.startswith(b"{"):
        raise MalformedContent("its header does not begin with '{'")
    try:
        tensors = json.loads(
            header.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant
        )
    except UnicodeDecodeError:
        raise MalformedContent("its header is not UTF-8") from None
    except RecursionError:
        raise MalformedContent("its header is nested too deeply") from None
    except ValueError as error:
        raise MalformedContent(f"its header is not JSON ({str(error)[:120]})") from None
    if not isinstance(tensors, dict):
        raise MalformedContent("its header is not a JSON object")
    metadata = tensors.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise MalformedContent("its __metadata__ is not a map of strings")
    return _check_layout(tensors, data_bytes=content.size - 8 - length, metadata=metadata)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedContent("its header names something twice")
    return found


def _no_constant(name: str) -> Any:
    raise MalformedContent(f"its header holds {name}")


def _check_layout(tensors: dict[str, Any], *, data_bytes: int, metadata: dict[str, str]) -> SafetensorsHeader:
    spans = []
    by_dtype: Counter[str] = Counter()
    packed_bits = not_weights = 0
    for name, tensor in tensors.items():
        begin, end, dtype, elements = _check_tensor(name, tensor)
        spans.append((begin, end, name))
        by_dtype[dtype] += elements
        is_packed = _is_packed(name, dtype)
        packed_bits += elements * BITS[dtype] if is_packed else 0
        not_weights += elements if is_packed or name.endswith(_BESIDE) else 0
    expected = 0
    for begin, end, name in sorted(spans):
        if begin != expected:
            raise MalformedContent(
                f"tensor '{name[:80]}' leaves a gap or overlaps at byte {begin:,} of the data"
            )
        expected = end
    if expected != data_bytes:
        raise MalformedContent(f"its tensors cover {expected:,} bytes but {data_bytes:,} follow the header")
    elements = sum(by_dtype.values())
    return SafetensorsHeader(len(spans), elements, dict(by_dtype), metadata, packed_bits, not_weights)


def _is_packed(name: str, dtype: str) -> bool:
    return dtype in ("I32", "U8") and name.endswith((*_PACKED, ".weight"))


def _check_tensor(name: str, tensor: Any) -> tuple[int, int, str, int]:
    where = f"tensor '{name[:80]}'"
    if not isinstance(tensor, dict) or set(tensor) != {"dtype", "shape", "data_offsets"}:
        raise MalformedContent(f"{where} is not described by dtype, shape and data_offsets")
    dtype, shape, offsets = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise MalformedContent(f"{where} has the unknown dtype {str(dtype)[:40]!r}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise MalformedContent(f"{where} has no valid shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise MalformedContent(f"{where} has no valid data_offsets")
    begin, end = offsets
    elements = math.prod(shape)
    bits = elements * BITS[dtype]
    if bits % 8 or end - begin != bits // 8:
        raise MalformedContent(
            f"{where} has {end - begin:,} bytes where its shape and dtype need {bits / 8:,.0f}"
        )
    return begin, end, dtype, elements


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
