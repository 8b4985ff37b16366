"""Pipelines of diffusers as networks that remove noise step by step. Imports no Django."""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from optimization.recipes.order import MakingOrder, RecipeRefusal, device

INDEX = "model_index.json"
NETWORK, SCHEDULER = "unet", "scheduler"
DISTILLED = "distillation.json"
"""`{steps}` of a version that was distilled: so many it was trained for."""


@dataclass(frozen=True)
class NoiseSchedule:
    """Signal and noise by timestep; the last entry is the picture without noise."""

    signal: Tensor
    noise: Tensor
    prediction: str
    clips: bool

    @classmethod
    def of(cls, scheduler: Any, device: str) -> "NoiseSchedule":
        kept = torch.cat([scheduler.alphas_cumprod.double(), torch.ones(1).double()])
        if not scheduler.config.get("set_alpha_to_one", True):
            kept[-1] = kept[0]
        config = scheduler.config
        if config.get("thresholding") or config.get("clip_sample_range", 1.0) != 1.0:
            raise RecipeRefusal("Its scheduler limits samples by a threshold, which is not distilled.")
        return cls(
            kept.sqrt().float().to(device),
            (1 - kept).sqrt().float().to(device),
            str(config.get("prediction_type", "epsilon")),
            bool(config.get("clip_sample", False)),
        )

    def __len__(self) -> int:
        return len(self.signal) - 1

    def at(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """Return signal and noise at each time, to be multiplied with pictures; below 0: no noise."""
        places = torch.where(times < 0, len(self), times)
        return self.signal[places][:, None, None, None], self.noise[places][:, None, None, None]

    def times(self, steps: int) -> list[int]:
        """Return the times of so many steps, the noisiest first: each is also one of twice as many."""
        return [round(len(self) - place * len(self) / steps) - 1 for place in range(steps)]

    def parts(self, output: Tensor, noisy: Tensor, times: Tensor) -> tuple[Tensor, Tensor]:
        """Return picture and noise, as the network's output tells them."""
        signal, noise = self.at(times)
        if self.prediction == "epsilon":
            return (noisy - noise * output) / signal, output
        if self.prediction == "sample":
            return output, (noisy - signal * output) / noise
        return signal * noisy - noise * output, signal * output + noise * noisy


@dataclass(frozen=True)
class Denoiser:
    """A network with its schedule. `conditions`: what it draws, one row per prompt, the empty prompt's last;
    None: it needs none."""

    network: Any
    schedule: NoiseSchedule
    conditions: Tensor | None = None
    guidance: float = 1.0

    def output(self, noisy: Tensor, times: Tensor, prompts: Tensor) -> Tensor:
        if self.conditions is None:
            return self.network(noisy, times).sample  # type: ignore[no-any-return]
        wanted = self.conditions[prompts]
        if self.guidance == 1.0:
            return self.network(noisy, times, encoder_hidden_states=wanted).sample  # type: ignore[no-any-return]
        empty = self.conditions[-1:].expand_as(wanted)
        both = self.network(
            torch.cat([noisy, noisy]),
            torch.cat([times, times]),
            encoder_hidden_states=torch.cat([wanted, empty]),
        ).sample
        with_prompt, without = both.chunk(2)
        return without + self.guidance * (with_prompt - without)  # type: ignore[no-any-return]

    def step(self, noisy: Tensor, times: Tensor, then: Tensor, prompts: Tensor) -> Tensor:
        """Take DDIM's step without fresh noise (Song et al. 2021, equation 12)."""
        picture, noise = self.schedule.parts(self.output(noisy, times, prompts), noisy, times)
        if self.schedule.clips:
            picture = picture.clamp(-1, 1)
        signal, left = self.schedule.at(then)
        return signal * picture + left * noise

    @torch.inference_mode()
    def drawn(self, noise: Tensor, steps: int, prompts: Tensor) -> Tensor:
        """Return the pictures, or their latents, that these steps make of noise."""
        times = self.schedule.times(steps)
        for now, then in zip(times, [*times[1:], -1], strict=True):
            noise = self.step(noise, _all(now, noise), _all(then, noise), prompts)
        return noise


def _all(time: int, like: Tensor) -> Tensor:
    return torch.full((len(like),), time, device=like.device)


def load(directory: Path) -> Any:
    """Return the pipeline, of safetensors alone. Raises RecipeRefusal."""
    if not (directory / INDEX).is_file():
        raise RecipeRefusal(f"It has no {INDEX}: this recipe is for pipelines in diffusers' layout.")
    from diffusers import DDIMScheduler, DiffusionPipeline

    from serving.runtime.rounded_networks import rounded_networks

    pipeline = DiffusionPipeline.from_pretrained(
        directory,
        local_files_only=True,
        use_safetensors=True,
        dtype=torch.float32,
        **rounded_networks(directory, dtype=torch.float32),
    )
    if getattr(pipeline, NETWORK, None) is None:
        raise RecipeRefusal(
            f"{type(pipeline).__name__} has no {NETWORK}, the network that this recipe changes."
        )
    if getattr(pipeline.unet.config, "addition_embed_type", None) is not None:
        raise RecipeRefusal(
            "Its network wants more than noise, time and prompt: this recipe cannot train it."
        )
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, timestep_spacing="trailing")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline.to(device())


def conditions_of(pipeline: Any, prompts: Iterable[str]) -> Tensor | None:
    """Return embeddings of the prompts and of the empty one; None: the pipeline takes no prompts."""
    if getattr(pipeline, "text_encoder", None) is None:
        return None
    with torch.inference_mode():
        rows = [
            pipeline.encode_prompt(text, pipeline.device, 1, do_classifier_free_guidance=False)[0]
            for text in (*prompts, "")
        ]
    return torch.cat(rows).clone()


def shape_of(pipeline: Any) -> tuple[int, int, int]:
    config = pipeline.unet.config
    side = config.sample_size if isinstance(config.sample_size, Sequence) else [config.sample_size] * 2
    return (int(config.in_channels), int(side[0]), int(side[1]))


def save(order: MakingOrder, pipeline: Any, *, steps: int | None = None) -> None:
    """Write the pipeline with its changed network; every other part is copied from the source."""
    shutil.copytree(
        order.source,
        order.output,
        dirs_exist_ok=True,
        ignore=lambda at, names: _replaced(order.source, at, names),
    )
    pipeline.unet.save_pretrained(order.output / NETWORK, safe_serialization=True)
    pipeline.scheduler.save_pretrained(order.output / SCHEDULER)
    index = json.loads((order.output / INDEX).read_bytes())
    (order.output / INDEX).write_text(
        json.dumps({**index, SCHEDULER: ["diffusers", type(pipeline.scheduler).__name__]}, indent=2) + "\n"
    )
    if steps is not None:
        (order.output / DISTILLED).write_text(json.dumps({"steps": steps}) + "\n")


def _replaced(source: Path, at: str, names: Sequence[str]) -> set[str]:
    return {NETWORK, SCHEDULER} & set(names) if Path(at) == source else set()


def distilled_steps(directory: Path) -> int | None:
    """Return the steps that a version was distilled to; None: it was not."""
    place = directory / DISTILLED
    told: Mapping[str, Any] = json.loads(place.read_bytes()) if place.is_file() else {}
    return told.get("steps")
