"""`python -m controlplane.sample.tide.train --out DIR`: the version of the tide's service, within seconds."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from controlplane.sample import artefacts
from controlplane.sample.tide import app

STEPS, BATCH = 200, 64
CARD = "# Pictures\n\nA small network that rates how bright a picture is.\n"


def ensure(out: Path) -> None:
    """Have the version in `out`; nothing is done where it is there, made from the same code."""
    with artefacts.alone_in(out):
        made = out / "v1"
        code = Path(app.__file__)
        if (made / "app.py").is_file() and (made / "app.py").read_bytes() == code.read_bytes():
            return
        with artefacts.being_made(out) as scratch:
            directory = scratch / "v1"
            directory.mkdir()
            save_file(_trained().state_dict(), directory / "rater.safetensors")
            (directory / "rater.safetensors").chmod(0o644)
            shutil.copyfile(code, directory / "app.py")
            (directory / "README.md").write_text(CARD)
            shutil.rmtree(made, ignore_errors=True)
            directory.rename(made)


def _trained() -> nn.Sequential:
    torch.manual_seed(7)
    torch.set_num_threads(1)
    pictures = torch.stack([app.picture(seed) for seed in range(1_024)])
    bright = pictures.mean((1, 2)).unsqueeze(1)
    network = app.network()
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    for step in range(STEPS):
        chosen = torch.arange(step * BATCH, (step + 1) * BATCH) % len(pictures)
        optimizer.zero_grad()
        nn.functional.mse_loss(network(pictures[chosen]), bright[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m controlplane.sample.tide.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    ensure(parser.parse_args(arguments).out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
