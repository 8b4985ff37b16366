"""`python -m controlplane.sample.translate.train --out DIR`: versions of the translation graph.

Takes about a minute, and nothing when DIR holds them already. The second version was trained longer.
"""

import argparse
import hashlib
import json
import random
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
from controlplane.sample.translate import app, phrases, pictures

VERSIONS = ("v1", "v2", "v3")
SEED, DRAWN, BATCH = 11, 160, 16
MATTING_STEPS = {"v1": 80, "v2": 160}
TRANSLATOR_STEPS = {"v1": 120, "v2": 160}
LOCK = "requirements.lock"
CARD = """---
pipeline_tag: image-to-image
model-index:
- name: translate-image
  results:
  - task: {{type: image-segmentation}}
    dataset: {{name: drawn products, type: drawn}}
    metrics: [{{type: iou, value: {iou:.4f}}}]
  - task: {{type: translation}}
    dataset: {{name: product phrases, type: generated}}
    metrics: [{{type: exact_match, value: {exact:.4f}}}]
---
# Translated product pictures

A graph of tasks: matting by a small U-Net, OCR, translation by a small Transformer, inpainting, rendering.
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
    for name in ("app.py", "phrases.py", "pictures.py", "train.py", LOCK):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return digest.hexdigest()


def _train(scratch: Path) -> None:
    torch.manual_seed(SEED)
    # More threads than free cores wait for each other.
    torch.set_num_threads(1)
    matting, translator = _Matting(), _Translator()
    for name in MATTING_STEPS:
        began = time.monotonic()
        iou, exact = matting.trained(MATTING_STEPS[name]), translator.trained(TRANSLATOR_STEPS[name])
        sys.stdout.write(f"{name}: IoU {iou:.3f}, exact {exact:.3f} after {time.monotonic() - began:.1f} s\n")
        directory = scratch / name
        directory.mkdir()
        save_file(matting.network.state_dict(), directory / "matting.safetensors")
        save_file(translator.network.state_dict(), directory / "translator.safetensors")
        for file in directory.glob("*.safetensors"):
            file.chmod(0o644)
        known = {"words": translator.words, "glossary": phrases.BRANDS}
        (directory / "words.json").write_text(json.dumps(known, ensure_ascii=False))
        for source in (Path(app.__file__), Path(__file__).with_name(LOCK)):
            shutil.copyfile(source, directory / source.name)
        (directory / "README.md").write_text(CARD.format(iou=iou, exact=exact))


class _Matting:
    def __init__(self) -> None:
        self.network = app.UNet()
        self._optimizer = torch.optim.AdamW(self.network.parameters(), 4e-3)
        self._inputs, self._masks = _tensors(range(1_000, 1_000 + DRAWN))
        self._examined, self._truth = _tensors(range(2_000, 2_030))

    def trained(self, steps: int) -> float:
        """IoU over pictures that it has not seen."""
        for _ in range(steps):
            chosen = torch.randint(0, DRAWN, (BATCH,))
            self._optimizer.zero_grad()
            found = self.network(self._inputs[chosen])
            nn.functional.binary_cross_entropy_with_logits(found, self._masks[chosen]).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        with torch.inference_mode():
            found, truth = self.network(self._examined) > 0, self._truth > 0
        return float((found & truth).sum() / (found | truth).sum())


def _tensors(seeds: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = [pictures.draw(seed) for seed in seeds]
    masks = [np.repeat(one.mask[:, :, None], 3, 2) * np.uint8(255) for one in drawn]
    inputs = torch.stack([app.small(one.pixels) for one in drawn])
    return inputs, torch.stack([app.small(mask)[0] for mask in masks])


class _Translator:
    def __init__(self) -> None:
        self._draw = random.Random(SEED)  # noqa: S311 - phrases, no secrets
        words = {word for source, target in map(_split, self._pairs(4_000)) for word in (*source, *target)}
        self.words = ["", app.START, app.END, app.TERM, *sorted(words - {app.TERM})]
        self._numbers = {word: number for number, word in enumerate(self.words)}
        self.network = app.WordTransformer(len(self.words))
        self._optimizer = torch.optim.AdamW(self.network.parameters(), 2e-3)

    def _pairs(self, count: int) -> list[tuple[str, str]]:
        return [phrases.phrase(self._draw) for _ in range(count)]

    def _batch(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        source = torch.zeros(count, app.LONGEST, dtype=torch.long)
        target = torch.zeros(count, app.LONGEST + 1, dtype=torch.long)
        for row, pair in enumerate(self._pairs(count)):
            english, spanish = _split(pair)
            source[row, : len(english)] = torch.tensor([self._numbers[word] for word in english])
            told = [self._numbers[word] for word in (app.START, *spanish, app.END)]
            target[row, : len(told)] = torch.tensor(told)
        return source, target

    def trained(self, steps: int) -> float:
        """Share of phrases whose every word is right."""
        for _ in range(steps):
            source, target = self._batch(64)
            self._optimizer.zero_grad()
            told = self.network(source, target[:, :-1])
            nn.functional.cross_entropy(told.transpose(1, 2), target[:, 1:], ignore_index=0).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
        source, target = self._batch(200)
        with torch.inference_mode():
            told = self.network(source, target[:, :-1]).argmax(2)
        is_right = (told == target[:, 1:]) | (target[:, 1:] == 0)
        return float(is_right.all(1).float().mean())


def _split(pair: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Words of both, with terms of the glossary replaced."""
    english, spanish = (
        [app.TERM if word in phrases.BRANDS else word for word in text.split()] for text in pair
    )
    return english, spanish


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m controlplane.sample.translate.train", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--bad", action="store_true", help="changes nothing: the bad version is made with the others"
    )
    options = parser.parse_args(arguments)
    ensure(options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
