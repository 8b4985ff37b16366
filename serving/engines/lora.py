"""LoRA adapters of a model in torch: each token of a step gets the products of its request's adapter.

Read from PEFT's layout. The weights of the model stay as they are, so that requests with different adapters,
and without one, share forward steps. Importing this module takes seconds.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from serving.openai import RequestFault

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_WEIGHT = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")
_CHANGES_MORE = ("use_dora", "modules_to_save", "alpha_pattern", "rank_pattern", "megatron_config")
"""Keys of an adapter's config whose meaning is not computed here."""


@dataclass(frozen=True, eq=False, slots=True)
class LoraAdapter:
    products: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    """By the module that they are added to: factors `[in, rank]` and `[rank, out]`, which has the scale."""

    @classmethod
    def read(cls, directory: Path, model: torch.nn.Module) -> "LoraAdapter":
        """Raises RequestFault for what does not fit the model."""
        try:
            config = json.loads((directory / CONFIG).read_bytes())
            rank, alpha = int(config["r"]), float(config["lora_alpha"])
            tensors = load_file(directory / WEIGHTS)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise RequestFault(409, f"The adapter cannot be read: {error}") from None
        if config.get("peft_type") != "LORA" or config.get("bias", "none") != "none":
            raise RequestFault(409, "Only adapters of PEFT's type LORA without biases can be loaded")
        if odd := next((key for key in _CHANGES_MORE if config.get(key)), None):
            raise RequestFault(409, f"This engine does not compute {odd} of adapter_config.json")
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        return cls(_products(tensors, model, scale=scale, rank=rank))


def _products(
    tensors: Mapping[str, torch.Tensor], model: torch.nn.Module, *, scale: float, rank: int
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    sides: dict[str, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        if (found := _WEIGHT.fullmatch(name)) is None:
            raise RequestFault(409, f"The adapter has weights that are no LoRA of a linear layer: {name}")
        sides.setdefault(found["module"], {})[found["side"]] = tensor
    modules = dict(model.named_modules())
    like = next(model.parameters())
    products = {}
    for name, pair in sides.items():
        module: Any = modules.get(name)
        if module is None:
            raise RequestFault(409, f"The model has no layer {name}: the adapter is of another model")
        shapes = tuple(tuple(pair[side].shape) if side in pair else () for side in "AB")
        width, height = getattr(module, "in_features", 0), getattr(module, "out_features", 0)
        if shapes != (wanted := ((rank, width), (height, rank))):
            raise RequestFault(409, f"{name}: the adapter has weights of {shapes}, the model takes {wanted}")
        down, up = (pair[side].to(like.device, like.dtype).t().contiguous() for side in "AB")
        products[name] = (down, up * scale)
    return products


Span = tuple[int, int, LoraAdapter]
"""First and last token (not included) of a step that an adapter applies to."""


class LoraSpans:
    """Adds the products of adapters to the layers of a model. Belongs to the thread that takes the steps."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._modules = dict(model.named_modules())
        self._hooked: set[str] = set()
        self._spans: Sequence[Span] = ()

    @contextmanager
    def of(self, spans: Sequence[Span]) -> Iterator[None]:
        """Apply these in the steps within."""
        for _, _, adapter in spans:
            for name in adapter.products.keys() - self._hooked:
                self._modules[name].register_forward_hook(partial(self._add, name))
                self._hooked.add(name)
        self._spans = spans
        try:
            yield
        finally:
            self._spans = ()

    def _add(
        self, name: str, _: torch.nn.Module, given: tuple[torch.Tensor, ...], answer: torch.Tensor
    ) -> torch.Tensor:
        for start, end, adapter in self._spans:
            if (pair := adapter.products.get(name)) is not None:
                down, up = pair
                answer[:, start:end] += (given[0][:, start:end] @ down) @ up
        return answer
