"""The order that a recipe's program is given, and the small parts that programs share. Imports no Django."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Report = Callable[[str, int, int], None]
"""Of the stage's name, and of how many parts how many are done."""

_KEPT = (".json", ".txt", ".model", ".jinja", ".md")


@dataclass(frozen=True, slots=True)
class MakingOrder:
    """Directories in Hugging Face layout: `source` is only read, `output` is empty."""

    source: Path
    output: Path
    parameters: Mapping[str, Any]
    seed: int
    calibration: Path | None = None
    """JSON lines as `items.read_items` takes them."""
    checkpoint: Path | None = None
    """Directory that is there again when the process died and another goes on; None: there is none."""

    def config(self) -> dict[str, Any]:
        """Return the model's config."""
        found: dict[str, Any] = json.loads((self.source / "config.json").read_bytes())
        return found

    def write_config(self, config: Mapping[str, Any]) -> None:
        (self.output / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    def keep_companions(self) -> None:
        """Copy what stands beside the weights: tokenizer, generation settings, card."""
        for path in sorted(self.source.iterdir()):
            is_index = path.name.endswith(".safetensors.index.json")
            if path.is_file() and path.suffix in _KEPT and not is_index and path.name != "config.json":
                shutil.copyfile(path, self.output / path.name)

    def texts(self) -> Iterator[str]:
        """Yield the texts of the calibration set."""
        if self.calibration is None:
            raise RecipeRefusal("This recipe needs a calibration set.")
        for line in self.calibration.read_text().splitlines():
            if line.strip():
                told = json.loads(line)
                if "choices" in told:
                    yield told["prompt"] + told["choices"][told["answer"]]
                else:
                    yield told.get("text") or told["prompt"]


def device() -> str:
    """Return where a recipe computes: the first GPU, else the processor."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class RecipeRefusal(Exception):
    """The recipe cannot be used on this model; the text says why and what to do."""
