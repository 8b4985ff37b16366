"""Load what ModelOpt has written: weights as their codes say, activations rounded as an engine rounds them.

No engine on a processor loads this layout; the accuracy check does, so that it is about the file that will
serve.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

METHOD = "modelopt"
MOST_INT8 = 127
MOST_FP8 = float(torch.finfo(torch.float8_e4m3fn).max)


class RoundedLinear(nn.Module):
    """A linear layer whose inputs are smoothed and rounded to the scale that was calibrated, if any."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        smoothing: Tensor | None,
        scale: Tensor | None,
        *,
        is_fp8: bool,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = weight.shape[1], weight.shape[0]
        self._weight, self._bias, self._smoothing = weight, bias, smoothing
        self._scale, self._is_fp8 = scale, is_fp8

    def forward(self, inputs: Tensor) -> Tensor:
        if self._smoothing is not None:
            inputs = inputs * self._smoothing
        if self._scale is not None and self._is_fp8:
            codes = (inputs / self._scale).clamp(-MOST_FP8, MOST_FP8).to(torch.float8_e4m3fn)
            inputs = codes.to(inputs.dtype) * self._scale
        elif self._scale is not None:
            inputs = (inputs / self._scale).round().clamp(-MOST_INT8, MOST_INT8) * self._scale
        return nn.functional.linear(inputs, self._weight, self._bias)


def is_modelopts(directory: Path) -> bool:
    config = json.loads((directory / "config.json").read_bytes())
    return bool(config.get("quantization_config", {}).get("quant_method") == METHOD)


def load(directory: Path) -> Any:
    """Return the model. Raises ValueError for tensors that do not fit, OSError."""
    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    del config.quantization_config
    model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    tensors: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            tensors |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    for name, module in list(model.named_modules()):
        scale = tensors.pop(f"{name}.weight_scale", None)
        if scale is None or not isinstance(module, nn.Linear):
            continue
        codes, bias = tensors.pop(f"{name}.weight"), tensors.pop(f"{name}.bias", None)
        parts = [tensors.pop(f"{name}.{part}", None) for part in ("pre_quant_scale", "input_scale")]
        weight = _weight(codes, scale)
        if weight.shape != module.weight.shape:
            raise ValueError(f"{name} is {tuple(weight.shape)}, not {tuple(module.weight.shape)}")
        is_fp8 = codes.dtype == torch.float8_e4m3fn
        model.set_submodule(name, RoundedLinear(weight, bias, *parts, is_fp8=is_fp8))
    missing, unknown = model.load_state_dict(
        {name: one.float() for name, one in tensors.items()}, strict=False
    )
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if wrong := [name for name in (*missing, *unknown) if name not in tied]:
        raise ValueError(f"{len(wrong)} tensors do not fit, {wrong[0]} among them")
    model.tie_weights()
    return model.eval()


def _weight(codes: Tensor, scale: Tensor) -> Tensor:
    if codes.dtype != torch.uint8:
        return codes.float() * (scale.float()[:, None] if scale.dim() == 1 else scale.float())
    # Two rows of 4 bits with their sign in one byte; a scale for each group of a row.
    low, high = (codes << 4).view(torch.int8) >> 4, codes.view(torch.int8) >> 4
    rows = torch.stack((low, high), 1).flatten(0, 1).float()
    return rows * scale.float().repeat_interleave(rows.shape[1] // scale.shape[1], 1)
