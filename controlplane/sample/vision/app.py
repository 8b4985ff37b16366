"""Names the shape in a picture: a service that Slipway runs as it stands here. Try it: slipway serve
app.py"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import BaseModel, Field
from safetensors.torch import load_file
from torch import nn

from slipway import serve

SIDE = 32
SHAPES = ("circle", "square", "triangle", "cross")


def network() -> nn.Sequential:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        *block(1, 8), *block(8, 16), *block(16, 32), nn.Flatten(), nn.Linear(32 * 16, len(SHAPES))
    )


class Classifier(serve.GpuModel):
    def load(self, files: Mapping[str, Path]) -> None:
        torch.set_num_threads(1)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.network = network()
        self.network.load_state_dict(load_file(files["classifier"]))
        self.network.eval().to(self.device)

    @serve.batched(max_size=32, max_wait_ms=5)
    @torch.inference_mode()
    def classify(self, pictures: list[np.ndarray]) -> list[np.ndarray]:
        batch = torch.from_numpy(np.stack(pictures)).to(self.device).unsqueeze(1)
        return list(self.network(batch).softmax(1).cpu().numpy())


app = serve.App(processes=4, abilities=["shapes"], title="Shapes")
unsure = app.indicator("unsure", "Pictures whose best shape had less than 0.6.")


Brightness = Annotated[int, Field(ge=0, le=255)]


class Picture(BaseModel):
    """Brightness of 32 x 32 points, row by row, each from 0 to 255."""

    pixels: Annotated[list[Brightness], Field(min_length=SIDE**2, max_length=SIDE**2)]


class Classification(BaseModel):
    shape: str
    confidence: float


@app.post("/classify", warm_up={"pixels": [0] * SIDE**2})
def classify(picture: Picture) -> Classification:
    """The shape in a picture."""
    pixels = np.array(picture.pixels, np.float32).reshape(SIDE, SIDE) / 255
    shares = serve.get(Classifier).run("classify", pixels)
    best = int(shares.argmax())
    if shares[best] < 0.6:
        unsure.observe()
    return Classification(shape=SHAPES[best], confidence=float(shares[best]))
