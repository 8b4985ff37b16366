"""`python -m controlplane.sample.vision.train --out DIR`: versions of one small classifier.

Takes seconds, and nothing when DIR holds them already. The second version goes on where the first stopped.
"""

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from controlplane.sample import artefacts
from controlplane.sample.vision import app, pictures

SEED = 7
VERSIONS = ("v1", "v2", "v3")
STEPS = {"v1": 60, "v2": 300}
BATCH, DRAWN, EXAMINED = 48, 3_000, 600
CARD = """---
pipeline_tag: image-classification
model-index:
- name: shapes
  results:
  - task: {{type: image-classification}}
    dataset: {{name: drawn shapes, type: drawn}}
    metrics: [{{type: accuracy, value: {accuracy:.4f}}}]
---
# Shapes

A small convolutional network that tells circles, squares, triangles and crosses apart.
"""


def ensure(out: Path) -> None:
    """Have three versions in `out`, the third of which serves badly. Several processes may ask at once."""
    with artefacts.alone_in(out):
        manifest = out / artefacts.MANIFEST
        told = {"fingerprint": _fingerprint(), **{name: artefacts.hashes(out / name) for name in VERSIONS}}
        if manifest.is_file() and json.loads(manifest.read_bytes()) == told:
            return
        with artefacts.being_made(out) as scratch:
            _train(scratch)
            shutil.copytree(scratch / "v2", scratch / "v3")
            (scratch / "v3" / "slipway.json").write_text(json.dumps(artefacts.BAD_SETTINGS))
            manifest.unlink(missing_ok=True)
            for name in VERSIONS:
                shutil.rmtree(out / name, ignore_errors=True)
                (scratch / name).rename(out / name)
                told[name] = artefacts.hashes(out / name)
            manifest.write_text(json.dumps(told))


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for name in ("app.py", "pictures.py", "train.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def _train(scratch: Path) -> None:
    torch.manual_seed(SEED)
    # More threads than free cores wait for each other.
    torch.set_num_threads(1)
    random = np.random.default_rng(SEED)
    inputs, shapes = _tensors(*pictures.drawn(DRAWN, random))
    network = app.network()
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    examined, right = _tensors(*pictures.drawn(EXAMINED, np.random.default_rng(SEED + 1)))
    for name, steps in STEPS.items():
        began = time.monotonic()
        network.train()
        for _ in range(steps):
            chosen = torch.from_numpy(random.integers(0, DRAWN, BATCH))
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[chosen]), shapes[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        with torch.inference_mode():
            accuracy = float((network(examined).argmax(1) == right).float().mean())
        sys.stdout.write(f"{name}: accuracy {accuracy:.3f} after {time.monotonic() - began:.1f} s\n")
        directory = scratch / name
        directory.mkdir()
        save_file(network.state_dict(), directory / "classifier.safetensors")
        (directory / "classifier.safetensors").chmod(0o644)
        shutil.copyfile(Path(app.__file__), directory / "app.py")
        (directory / "README.md").write_text(CARD.format(accuracy=accuracy))


def _tensors(drawn: np.ndarray, shapes: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(drawn.astype(np.float32) / 255).unsqueeze(1), torch.from_numpy(shapes)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane.sample.vision.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--bad", action="store_true", help="changes nothing: the bad version is made with the others"
    )
    options = parser.parse_args(arguments)
    ensure(options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
