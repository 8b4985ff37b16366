"""Features of pictures by a fixed small network or a vision model, and how far apart pictures are by them.

The fixed network is a pyramid of means and two layers of random filters, the same on every machine: random
filters keep form and colour apart well enough to compare pictures of one kind. Imports no Django.
"""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FILTERS, SEED = (32, 64), 20_240_229
MEANS, PLACES = 8, 4
TOGETHER = 64


class FixedFeatures:
    """Means of 8 by 8 parts, and of the answers of random filters in 4 by 4 parts; all count as much."""

    def __init__(self) -> None:
        draw = torch.Generator().manual_seed(SEED)
        widths = (3, *FILTERS)
        self._filters = [
            torch.randn(width, before, 3, 3, generator=draw) / math.sqrt(4.5 * before)
            for before, width in pairwise(widths)
        ]

    def __call__(self, pictures: Tensor) -> Tensor:
        found = [nn.functional.adaptive_avg_pool2d(pictures, MEANS)]
        layer = pictures - 0.5
        for place, filters in enumerate(self._filters):
            layer = nn.functional.conv2d(layer, filters.to(layer), stride=1 + place, padding=1).relu()
            found.append(nn.functional.adaptive_avg_pool2d(layer, PLACES))
        return torch.cat([one.flatten(1) / math.sqrt(one[0].numel()) for one in found], 1)


class ModelFeatures:
    """Features that a vision model in Hugging Face layout computes from a whole picture."""

    def __init__(self, directory: Path) -> None:
        from transformers import AutoImageProcessor, AutoModel

        load = {"local_files_only": True, "trust_remote_code": False}
        self._processor = AutoImageProcessor.from_pretrained(directory, **load)
        self._model: Any = AutoModel.from_pretrained(directory, use_safetensors=True, **load).eval()

    def __call__(self, pictures: Tensor) -> Tensor:
        given = self._processor(images=list(pictures), do_rescale=False, return_tensors="pt")
        if hasattr(self._model, "get_image_features"):
            found = self._model.get_image_features(**given)
            found = getattr(found, "pooler_output", found)
        else:
            said = self._model(**given)
            pooled = getattr(said, "pooler_output", None)
            found = said.last_hidden_state.mean(1) if pooled is None else pooled
        return nn.functional.normalize(found.flatten(1).float(), dim=1)


@torch.inference_mode()
def features_of(pictures: Tensor, network: Any) -> Tensor:
    """`pictures`: `[count, 3, height, width]` from 0 to 1."""
    return torch.cat([network(some) for some in torch.split(pictures, TOGETHER)]).double()


def distance_parts(made: Tensor, reference: Tensor) -> Tensor:
    """Return each picture's part in the energy distance between two sets of features; their mean is it.

    The parts are jackknife's pseudo-values of the unbiased estimate (Szekely and Rizzo 2013; Efron and Stein
    1981), so that their spread tells how sure it is.
    """
    count = len(made)
    to_reference = torch.cdist(made, reference).mean(1)
    among = torch.cdist(made, made).sum(1) / (count - 1)
    within = torch.cdist(reference, reference).sum() / (len(reference) * (len(reference) - 1))
    own = (2 * (count - 1) * among - count * among.mean()) / (count - 2)
    parts: Tensor = 2 * to_reference - own - within
    return parts


def likeness(made: Tensor, wanted: Tensor, spread: Tensor) -> Tensor:
    """Return how alike pictures of equal noise are: 1 the same, 0 as far apart as two of `spread` are."""
    apart = torch.cdist(spread, spread).sum() / (len(spread) * (len(spread) - 1))
    found: Tensor = 1 - (made - wanted).norm(dim=1) / apart.clamp(min=1e-12)
    return found
