"""Models with int8 weights, and activations rounded to int8 at each step, on the CPU.

Read from files in the layout of compressed-tensors (`int-quantized`: one scale per output channel), which
vLLM reads as well. Importing this module takes seconds.
"""

import json
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from serving.engines.base import EngineError

METHOD = "compressed-tensors"
FORMAT = "int-quantized"


class Int8Linear(nn.Module):
    """A linear layer with a scale for each output channel and one for each token.

    A token's result does not depend on the tokens beside it: requests may share steps.
    """

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        zeros = torch.zeros(weight.shape[0], dtype=torch.long)
        with warnings.catch_warnings():
            # Packing takes a quantized tensor, and has no other way in yet.
            warnings.simplefilter("ignore", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(
                weight, scale.flatten().double(), zeros, axis=0
            )
        self._packed = torch.ops.quantized.linear_prepack(quantized, None if bias is None else bias.float())
        self._bias = None if bias is None else bias.float()
        self.out_features, self.in_features = weight.shape

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        scale = hidden.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 127
        found: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            hidden / scale, 1.0, 128, self._packed
        )
        if self._bias is None:
            return found * scale
        return (found - self._bias) * scale + self._bias


def quantization_of(directory: Path) -> Mapping[str, Any] | None:
    """Return what its config says of quantization; None: the files are not quantized."""
    found: Mapping[str, Any] | None = json.loads((directory / "config.json").read_bytes()).get(
        "quantization_config"
    )
    return found


def is_ours(described: Mapping[str, Any] | None) -> bool:
    """Whether `load` is to load it; where compressed-tensors is installed, that reads what we cannot."""
    if not described or described.get("quant_method") != METHOD or described.get("format") != FORMAT:
        return False
    return not _fault(described) or find_spec("compressed_tensors") is None


def load(directory: Path, *, device: str) -> Any:
    """Load a model of `FORMAT`. Raises EngineError, and whatever transformers raises."""
    if device != "cpu":
        raise EngineError(
            "int8 files of compressed-tensors run on the CPU here; on a GPU take the engine vllm"
        )
    described = quantization_of(directory) or {}
    if fault := _fault(described):
        raise EngineError(f"{directory.name} cannot be read: {fault}")
    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    tensors = _tensors(directory)
    for name, module in list(model.named_modules()):
        scale = tensors.pop(f"{name}.weight_scale", None)
        if scale is None or not isinstance(module, nn.Linear):
            continue
        weight, bias = tensors.pop(f"{name}.weight"), tensors.pop(f"{name}.bias", None)
        if weight.dtype != torch.int8 or weight.shape != module.weight.shape:
            raise EngineError(
                f"{name} is {weight.dtype} of {tuple(weight.shape)}, not int8 as its config says"
            )
        model.set_submodule(name, Int8Linear(weight, scale, bias))
    missing, unknown = model.load_state_dict({name: t.float() for name, t in tensors.items()}, strict=False)
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if missing := [name for name in missing if name not in tied]:
        raise EngineError(f"{len(missing)} weights are missing, {missing[0]} among them")
    if unknown:
        raise EngineError(f"{len(unknown)} weights belong to no layer, {unknown[0]} among them")
    model.tie_weights()
    return model


def _fault(described: Mapping[str, Any]) -> str:
    """Return why this is not what `Int8Linear` computes; empty: it is."""
    for group in described.get("config_groups", {}).values():
        weights, inputs = group.get("weights") or {}, group.get("input_activations") or {}
        if (
            weights.get("type") != "int"
            or weights.get("strategy") != "channel"
            or not weights.get("symmetric")
        ):
            return "its weights are not symmetric integers with one scale per channel"
        if not 2 <= weights.get("num_bits", 0) <= 8:
            return "its weights have more than 8 bits"
        if inputs.get("num_bits") != 8 or not inputs.get("dynamic"):
            return "its activations are not rounded to int8 at each step"
    return "" if described.get("config_groups") else "its config names no group of layers"


def _tensors(directory: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            found |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    return found
