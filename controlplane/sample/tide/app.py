"""Rates pictures: one at once, or an album as a job. Try it: slipway serve app.py"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import torch
from pydantic import BaseModel, Field
from safetensors.torch import load_file
from torch import nn

from slipway import serve

SIDE = 16
SECONDS = 0.2
"""For which each picture waits, as for the GPU of a larger model: two cores carry many such workers."""


def network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 32), nn.ReLU(), nn.Linear(32, 1))


def picture(seed: int) -> torch.Tensor:
    """A picture of grey points, the brighter the higher its contrast."""
    random = torch.Generator().manual_seed(seed)
    return torch.rand(SIDE, SIDE, generator=random) * torch.rand(1, generator=random)


class Rater(serve.GpuModel):
    def load(self, files: Mapping[str, Path]) -> None:
        torch.set_num_threads(1)
        self.network = network()
        self.network.load_state_dict(load_file(files["rater"]))
        self.network.eval()

    @serve.batched(max_size=16, max_wait_ms=2)
    @torch.inference_mode()
    def rate(self, pictures: list[torch.Tensor]) -> list[torch.Tensor]:
        return list(self.network(torch.stack(pictures)))


app = serve.App(processes=2, title="Pictures")


class TidePicture(BaseModel):
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0


class Album(BaseModel):
    seeds: Annotated[list[int], Field(max_length=1_000)]


class Rating(BaseModel):
    rating: float


def _rated(seed: int) -> float:
    time.sleep(SECONDS)
    return float(serve.get(Rater).run("rate", picture(seed)))


@app.post("/rate", warm_up={"seed": 1})
def rate(asked: TidePicture) -> Rating:
    """The rating of a picture."""
    return Rating(rating=_rated(asked.seed))


@app.job("/albums", attempts=5, backoff_seconds=0.5)
def albums(asked: Album, progress: Callable[[float, str], None]) -> list[float]:
    """The ratings of many pictures."""
    ratings: list[float] = []
    for number, seed in enumerate(asked.seeds):
        progress(number / len(asked.seeds), "")
        ratings.append(_rated(seed))
    return ratings
