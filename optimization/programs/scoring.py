"""The job that has parent and child answer the same items, by the engine that serves them.

Scores: of a text the log-likelihood of its tokens, in nats per token; of a question 1 if the right choice is
the likeliest, else 0. They are written item by item, as JSON lines.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.items import EvalItem, read_items
from optimization.programs.checks import tokenizer_fault
from optimization.programs.making import OFFLINE, missing_environment

SCORES = "scores.jsonl"
MOST_TOKENS = 2_048


def score(running: Running) -> Mapping[str, Any]:
    """Return where the scores lie, or `refused` with the reason."""
    told = read_json()
    if gone := missing_environment(told):
        return {"refused": gone}
    if fault := tokenizer_fault(Path(told["parent"]), Path(told["child"])):
        return {"refused": fault}
    items = read_items(Path(told["test"]))
    place = Path(told["output"])
    place.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[tuple[float, int]]] = {}
    for side in ("parent", "child"):
        try:
            found[side] = list(scores_of(Path(told[side]), items, side, running))
        except ScoringRefusal as error:
            return {"refused": f"The {side}: {error}"}
    with (place / SCORES).open("w") as file:
        for item, ours, theirs in zip(items, found["parent"], found["child"], strict=True):
            line = {
                "item": item.digest,
                "metric": item.metric,
                "parent": ours[0],
                "child": theirs[0],
                "parent_answer": ours[1],
                "child_answer": theirs[1],
                "text": item.text[:200],
            }
            file.write(json.dumps(line) + "\n")
    return {"items": len(items), "path": str(place / SCORES)}


class ScoringRefusal(Exception):
    pass


def loaded_model(directory: Path) -> Any:
    """Load a version by the engine that serves it. Raises ScoringRefusal."""
    from optimization.recipes.modelopt import loading
    from serving.engines.base import EngineError
    from serving.engines.causal import CausalModel
    from serving.engines.transformers import TransformersSettings

    try:
        if loading.is_modelopts(directory):
            return CausalModel.of(loading.load(directory), directory, settings=TransformersSettings())
        return CausalModel.load(directory, device="cpu", settings=TransformersSettings())
    except (EngineError, ImportError, OSError, ValueError) as error:
        raise ScoringRefusal(f"it cannot be loaded: {error}") from None


def scores_of(
    directory: Path, items: list[EvalItem], side: str, running: Running
) -> Iterator[tuple[float, int]]:
    """Yield the score of each item, and which choice it takes (-1: it has none)."""
    import torch

    loaded = loaded_model(directory)
    model, tokenizer, limit = loaded.model, loaded.tokenizer, min(loaded.context, MOST_TOKENS)

    def likelihood(text: str, since: int, number: int) -> float:
        """Mean log-probability of the tokens from `since` on: a long choice is no worse for its length."""
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        if since and ids.shape[1] > limit:
            raise ScoringRefusal(
                f"item {number} has {ids.shape[1]:,} tokens with a choice, its context {limit:,}: shorten it"
            )
        ids = ids[:, :limit]
        since = max(since, 1)
        if since >= ids.shape[1]:
            raise ScoringRefusal(f"item {number} has no token that could be scored: remove it")
        with torch.inference_mode():
            logits = model(input_ids=ids).logits[0, :-1].float()
        if not torch.isfinite(logits).all():
            raise ScoringRefusal("its logits are no numbers")
        logs = logits.log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        return float(logs[since - 1 :].mean())

    for done, item in enumerate(items, 1):
        if not item.choices:
            yield likelihood(item.text, 0, done), -1
        else:
            begin = len(tokenizer(item.text)["input_ids"])
            means = [likelihood(item.text + choice, begin, done) for choice in item.choices]
            taken = means.index(max(means))
            yield float(taken == item.answer), taken
        if done % 10 == 0 or done == len(items):
            running.report({"stage": f"scoring {side}", "done": done, "total": len(items)})


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    sys.exit(run(score))
