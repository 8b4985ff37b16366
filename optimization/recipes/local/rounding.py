"""Round the linear layers to integers with one scale per output channel, in compressed-tensors' layout."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from optimization.recipes.local.layers import linear_layers
from optimization.recipes.order import MakingOrder, RecipeRefusal, Report


def make(order: MakingOrder, report: Report) -> dict[str, Any]:
    bits = int(order.parameters["bits"])
    config = order.config()
    if "quantization_config" in config:
        raise RecipeRefusal("The model is quantized already: choose its parent, which is not.")
    layers = linear_layers(order.source)
    if not layers:
        raise RecipeRefusal("The model has no linear layer that could be rounded.")
    tensors: dict[str, Tensor] = {}
    worst, done = 0.0, 0
    for name, tensor in _tensors(order.source):
        layer = name.removesuffix(".weight")
        if layer not in layers or not name.endswith(".weight"):
            tensors[name] = tensor
            continue
        codes, scale = rounded(tensor, bits)
        tensors[name], tensors[f"{layer}.weight_scale"] = codes, scale
        error = (codes.float() * scale - tensor.float()).norm() / tensor.float().norm().clamp(min=1e-12)
        worst, done = max(worst, float(error)), done + 1
        report("rounding", done, len(layers))
    if done != len(layers):
        raise RecipeRefusal(
            f"{len(layers) - done} of {len(layers)} linear layers have no weights of their own."
        )
    order.keep_companions()
    save_file(tensors, order.output / "model.safetensors", metadata={"format": "pt"})
    order.write_config({**config, "quantization_config": _described(bits)})
    return {"layers": done, "worst_relative_error": round(worst, 6)}


def rounded(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return codes and scales: symmetric, one scale per row."""
    most = 2 ** (bits - 1) - 1
    scale = weight.float().abs().amax(1, keepdim=True).clamp(min=1e-12) / most
    return torch.round(weight.float() / scale).clamp(-most, most).to(torch.int8), scale


def _tensors(directory: Path) -> Iterator[tuple[str, Tensor]]:
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in sorted(file.keys()):
                yield name, file.get_tensor(name)


def _described(bits: int) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False}
    inputs = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
        },
    }
