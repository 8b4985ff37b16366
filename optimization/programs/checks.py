"""Checks of a version's files before a recipe or a score, where libraries would fail without a cause."""

import json
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
TOKENIZER = "tokenizer.json"
PIPELINE = "model_index.json"


def source_fault(directory: Path) -> str:
    """Return why no recipe can use the files of a version; empty: nothing is wrong with them so far."""
    if (directory / PIPELINE).is_file():
        # Of diffusers, which names what it misses.
        return ""
    if not (directory / "config.json").is_file():
        return "The version has no config.json: import it again with all of its files."
    config = json.loads((directory / "config.json").read_bytes())
    if (index := directory / INDEX).is_file():
        named = set(json.loads(index.read_bytes()).get("weight_map", {}).values())
        if missing := sorted(name for name in named if not (directory / name).is_file()):
            return (
                f"{INDEX} names {missing[0]}, which the version lacks: {len(missing)} of {len(named)} "
                "files are missing. Ask its hub for access if it is gated, and import it again."
            )
    tokens, known = max(_tokens(directory)[0].values(), default=-1), config.get("vocab_size")
    if isinstance(known, int) and tokens >= known:
        return f"The tokenizer has a token {tokens:,}, but the model {known:,} embeddings: they do not fit."
    return ""


def tokenizer_fault(parent: Path, child: Path) -> str:
    """Return why scores of two versions cannot be compared; empty: their tokenizers are alike."""
    ours, theirs = (_tokens(one) for one in (parent, child))
    if ours == theirs:
        return ""
    return "Parent and child have different tokenizers: their scores per token cannot be compared."


def _tokens(directory: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the ids of tokens, and of those that were added later, which a model may lack; empty: the
    tokenizer is of a kind without such a file."""
    file = directory / TOKENIZER
    if not file.is_file():
        return {}, {}
    told = json.loads(file.read_bytes())
    vocabulary: Any = told.get("model", {}).get("vocab") or {}
    found = vocabulary if isinstance(vocabulary, dict) else {one[0]: at for at, one in enumerate(vocabulary)}
    return found, {one["content"]: one["id"] for one in told.get("added_tokens") or ()}
