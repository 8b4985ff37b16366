"""Fewer steps of a small diffusion model: `python -m perf.distillation --environments DIR [--side 16]`.

A network of diffusers is trained on drawings of simple shapes, distilled from 64 steps to 4 by the recipe
`diffusion/step-distillation`, and compared with itself: the energy distance of each one's pictures to
drawings, by the features of the accuracy check, and seconds of own CPU per picture (on a GPU: seconds). The
parent cut to 2 steps without any training is the foil. `DIR`: where the environment is, or is made.
Required: at 4 steps 10 times as fast, at most 1.1 times the parent's distance.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from perf.required import at_least, at_most, report

TEACHER, STUDENT, FOIL = 64, 4, 2
TOGETHER = 100


def drawings(count: int, side: int, *, seed: int) -> Any:
    """Return discs, squares and rings of any place, size and colour, from -1 to 1."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    place = torch.rand(count, 2, 1, 1, generator=draw) * 0.4 + 0.3
    size = torch.rand(count, 1, 1, generator=draw) * 0.12 + 0.15
    colour = torch.rand(count, 3, 1, 1, generator=draw)
    kind = torch.randint(3, (count, 1, 1), generator=draw)
    line = (torch.arange(side) + 0.5) / side
    across, down = (line[None, None] - place[:, 0]).abs(), (line[None, :, None] - place[:, 1]).abs()
    round_, square = (across**2 + down**2).sqrt(), torch.maximum(across, down)
    inside = torch.where(kind == 1, size - square, size - round_)
    inside = torch.where(kind == 2, torch.minimum(inside, round_ - size / 2), inside)
    share = (inside * side + 0.5).clamp(0, 1)[:, None]
    return (share * colour + (1 - share) * 0.9) * 2 - 1


def write_teacher(
    directory: Path, *, side: int, channels: int, steps: int, batch: int, prediction: str
) -> None:
    """Train a network that predicts v, or noise, and write it as a pipeline."""
    import torch
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    where = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    network = UNet2DModel(
        sample_size=side, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=8,
        block_out_channels=(channels, 2 * channels), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    ).to(where)  # fmt: skip
    print(f"{sum(one.numel() for one in network.parameters()) / 1e6:.2f} million weights")
    scheduler = DDIMScheduler(prediction_type=prediction, timestep_spacing="trailing", clip_sample=False)
    data = drawings(20_000, side, seed=2).to(where)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.0)
    averaged = [one.detach().clone() for one in network.parameters()]
    for step in range(steps):
        some = data[torch.randint(len(data), (batch,), device=where)]
        noise, times = torch.randn_like(some), torch.randint(1000, (batch,), device=where)
        noisy = scheduler.add_noise(some, noise, times)
        wanted = noise if prediction == "epsilon" else scheduler.get_velocity(some, noise, times)
        loss = torch.nn.functional.mse_loss(network(noisy, times).sample, wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1, (step + 1) / 100) * (1 - step / steps)
        optimizer.step()
        weights = [one.detach() for one in network.parameters()]
        torch._foreach_lerp_(averaged, weights, 1 - min(0.995, step / (step + 10)))
    for kept, new in zip(averaged, network.parameters(), strict=True):
        new.data.copy_(kept)
    DDIMPipeline(network.eval(), scheduler).save_pretrained(directory)


def drawn(directory: Path, steps: int, count: int) -> tuple[Any, float]:
    """Return pictures from 0 to 1 by the pipeline as it is served, and seconds per picture."""
    import torch

    from optimization.recipes.diffusion.pipelines import load

    pipeline = load(directory)
    on_gpu = torch.cuda.is_available()
    found = []
    pipeline(batch_size=TOGETHER, num_inference_steps=2, output_type="np")
    began = time.perf_counter() if on_gpu else time.process_time()
    for seed in range(0, count, TOGETHER):
        noise = [torch.Generator().manual_seed(one) for one in range(seed, seed + TOGETHER)]
        made = pipeline(
            batch_size=TOGETHER, num_inference_steps=steps, generator=noise, output_type="np"
        ).images
        found.append(torch.from_numpy(made).permute(0, 3, 1, 2))
    seconds = (time.perf_counter() if on_gpu else time.process_time()) - began
    return torch.cat(found), seconds / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path)
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--train", type=int, default=2_000)
    parser.add_argument("--training-steps", type=int, default=500, help="of each halving")
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--count", type=int, default=1_000, help="of pictures that are compared")
    parser.add_argument("--prediction", choices=("v_prediction", "epsilon"), default="v_prediction")
    given = parser.parse_args()
    if given.environments is not None:
        from optimization.programs.environment import environment_of

        place = environment_of("diffusion").ensure(given.environments)
        if Path(sys.prefix).resolve() != place.resolve():
            python = str(place / "bin" / "python")
            os.execv(python, [python, "-m", "perf.distillation", *sys.argv[1:]])
    with tempfile.TemporaryDirectory() as scratch:
        raise SystemExit(measured(Path(scratch), given))


def measured(root: Path, given: argparse.Namespace) -> int:
    from optimization.programs.features import FixedFeatures, distance_parts, features_of, likeness
    from optimization.recipes import recipes
    from optimization.recipes.diffusion import distilling
    from optimization.recipes.order import MakingOrder

    parent, child = root / "parent", root / "child"
    began = time.monotonic()
    write_teacher(
        parent, side=given.side, channels=given.channels, steps=given.train, batch=given.batch,
        prediction=given.prediction,
    )  # fmt: skip
    print(f"trained in {time.monotonic() - began:.0f} s", flush=True)
    values, faults = recipes()["diffusion/step-distillation"].values(
        {"training_steps": given.training_steps, "batch": given.batch, "rate": given.rate}
    )
    if faults:
        raise SystemExit(str(faults))
    child.mkdir()
    began = time.monotonic()
    details = distilling.make(MakingOrder(parent, child, values, seed=0), lambda *_: None)
    print(f"distilled in {time.monotonic() - began:.0f} s, losses {details['loss']}", flush=True)
    network = FixedFeatures()
    reference = features_of((drawings(4 * given.count, given.side, seed=3) + 1) / 2, network)
    fresh = features_of((drawings(given.count, given.side, seed=4) + 1) / 2, network)
    print(f"drawings      distance {float(distance_parts(fresh, reference).mean()):.5f}")
    figures: dict[str, tuple[float, float]] = {}
    wanted = fresh
    for name, place, steps in (
        ("parent", parent, TEACHER),
        ("distilled", child, STUDENT),
        ("cut to 4", parent, STUDENT),
        ("cut to 2", parent, FOIL),
    ):
        pictures, seconds = drawn(place, steps, given.count)
        found = features_of(pictures, network)
        wanted = wanted if figures else found
        parts = distance_parts(found, reference)
        error = float(parts.std()) / math.sqrt(len(parts))
        figures[name] = (float(parts.mean()), seconds)
        alike = float(likeness(found, wanted, reference).mean())
        print(
            f"{name:9} {steps:2} steps  distance {float(parts.mean()):.5f} +- {error:.5f}"
            f"  likeness {alike:.3f}  {seconds * 1000:8.2f} ms a picture",
            flush=True,
        )
    (far, slow), (near, fast) = figures["parent"], figures["distilled"]
    return report(
        [
            at_least("4 steps, times as fast as 64", slow / fast, 10),
            at_most("distance at 4 steps, times the parent's", near / far, 1.1),
            at_least(
                "distance of 2 steps without training, times the parent's", figures["cut to 2"][0] / far, 2
            ),
        ]
    )


if __name__ == "__main__":
    main()
