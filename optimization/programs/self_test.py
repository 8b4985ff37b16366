"""Apply a recipe to a tiny random model in this environment, load the result, and compare what both make.

python -m optimization.programs.self_test compressor/fp8-dynamic
"""

import importlib
import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from optimization.programs import picture_self_test as pictures
from optimization.programs.making import fault_of
from optimization.recipes import recipes
from optimization.recipes.order import MakingOrder

WORDS = tuple(f"w{number}" for number in range(60))
TEXTS = 16


def failure(name: str, directory: Path) -> str:
    """Return why the recipe does not do what it should; empty: it does."""
    recipe = recipes()[name]
    source, output = directory / "source", directory / "output"
    output.mkdir()
    is_of_pictures = recipe.makes == "pictures"
    (pictures.write_pipeline if is_of_pictures else write_model)(source)
    calibration = directory / "calibration.jsonl"
    draw = random.Random(1)  # noqa: S311 (texts)
    texts = [" ".join(draw.choices(WORDS, k=24)) for _ in range(TEXTS)]
    calibration.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    values, _faults = recipe.values(recipe.self_test)
    given = calibration if recipe.needs_calibration else None
    order = MakingOrder(source, output, values, seed=0, calibration=given)
    importlib.import_module(recipe.module).make(order, lambda *_: None)
    if fault := fault_of(output):
        return fault
    error = pictures.error(source, output, values) if is_of_pictures else _error_of_logits(source, output)
    sys.stdout.write(f"relative error {error:.4f}, at most {recipe.most_error:g}\n")
    if not error <= recipe.most_error:
        what = "pictures" if is_of_pictures else "logits"
        return f"the relative error of the {what} is {error:.3f}, at most {recipe.most_error:g} is right"
    return ""


def _error_of_logits(source: Path, output: Path) -> float:
    import torch

    ids = torch.randint(0, len(WORDS), (4, 24), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        before, after = (_loaded(one)(input_ids=ids).logits.cpu() for one in (source, output))
    return float((after - before).norm() / before.norm())


def _loaded(directory: Path) -> Any:
    from transformers import AutoModelForCausalLM

    from optimization.recipes.modelopt import loading

    if loading.is_modelopts(directory):
        return loading.load(directory)
    return AutoModelForCausalLM.from_pretrained(directory, local_files_only=True)


def write_model(directory: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate([*WORDS, "<unk>"])}
    plain = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>").save_pretrained(directory)  # noqa: S106
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.05,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(directory)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        words = failure(sys.argv[1], Path(scratch))
    if words:
        sys.stderr.write(f"{words}\n")
        sys.exit(1)
