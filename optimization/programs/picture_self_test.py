"""A tiny random pipeline for the self-tests of recipes that make pictures. Imports no Django."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PICTURES, SIDE = 8, 8


def write_pipeline(directory: Path) -> None:
    import torch
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    torch.manual_seed(0)
    network = UNet2DModel(
        sample_size=SIDE, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=8,
        block_out_channels=(16, 32), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    ).eval()  # fmt: skip
    scheduler = DDIMScheduler(prediction_type="v_prediction", timestep_spacing="trailing")
    DDIMPipeline(network, scheduler).save_pretrained(directory)


def error(source: Path, output: Path, parameters: Mapping[str, Any]) -> float:
    """Return how far pictures of equal noise are apart, relative to how far the parent's are."""
    import torch

    from optimization.recipes.diffusion.pipelines import distilled_steps, load

    before = parameters.get("teacher_steps", parameters["steps"])
    found = []
    for place, steps in ((source, before), (output, distilled_steps(output) or before)):
        noise = [torch.Generator().manual_seed(seed) for seed in range(PICTURES)]
        made = load(place)(
            batch_size=PICTURES, generator=noise, num_inference_steps=steps, output_type="np"
        ).images
        found.append(torch.from_numpy(made))
    wanted, made = found
    return float((made - wanted).norm() / (wanted - wanted.mean(0)).norm())
