"""Networks of pipelines whose weights are 8-bit codes and whose activations are rounded to measured scales.

The files name each layer's codes, the scales of its output channels and that of its inputs, as ModelOpt's do.
Activations are rounded as an engine with 8-bit arithmetic rounds them, then computed in floating point.
"""

import json
from pathlib import Path
from typing import Any

MOST = 127
METHOD = "modelopt"


def is_rounded(network: Path) -> bool:
    """Tell whether the files of a pipeline's network hold codes."""
    path = network / "config.json"
    told = json.loads(path.read_bytes()) if path.is_file() else {}
    return bool(told.get("quantization_config", {}).get("quant_method") == METHOD)


def rounded_networks(pipeline: Path, *, dtype: Any) -> dict[str, Any]:
    """Return the parts of a pipeline that diffusers cannot load by itself, by name."""
    import diffusers

    index = pipeline / "model_index.json"
    parts = json.loads(index.read_bytes()) if index.is_file() else {}
    return {
        name: load_rounded(pipeline / name, getattr(diffusers, part[1]), dtype=dtype)
        for name, part in parts.items()
        if isinstance(part, list) and part[0] == "diffusers" and is_rounded(pipeline / name)
    }


def load_rounded(network: Path, kind: Any, *, dtype: Any) -> Any:
    """Return the network of a class of diffusers. Raises ValueError for tensors that do not fit."""
    import torch
    from safetensors.torch import load_file

    config = {
        name: value for name, value in kind.load_config(network).items() if name != "quantization_config"
    }
    model = kind.from_config(config)
    tensors: dict[str, Any] = {}
    for path in sorted(network.glob("*.safetensors")):
        tensors |= load_file(path)
    for name, layer in list(model.named_modules()):
        scale = tensors.pop(f"{name}.weight_scale", None)
        if scale is None:
            continue
        if not isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
            raise ValueError(f"{name} is no layer that can be rounded")
        codes = tensors[f"{name}.weight"].float()
        tensors[f"{name}.weight"] = codes * scale.view(-1, *[1] * (codes.dim() - 1))
        layer.register_forward_pre_hook(_rounding(float(tensors.pop(f"{name}.input_scale"))))
    model.load_state_dict(tensors)
    return model.to(dtype).eval()


def _rounding(scale: float) -> Any:
    def rounded(_layer: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        first = (inputs[0] / scale).round().clamp(-MOST - 1, MOST) * scale
        return (first, *inputs[1:])

    return rounded
