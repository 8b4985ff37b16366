"""The layers of a model, read from its config alone: no weights are loaded."""

from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM


def skeleton(directory: Path) -> Any:
    """Return the model without memory for its weights."""
    config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, trust_remote_code=False)


def linear_layers(directory: Path) -> frozenset[str]:
    """Return the names of the linear layers, without the one that makes tokens."""
    model = skeleton(directory)
    last = model.get_output_embeddings()
    return frozenset(
        name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not last
    )
