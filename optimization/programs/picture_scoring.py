"""The job that has parent and child draw from the same noise, in turn, and compares their pictures.

Scores of a picture: its likeness to the parent's of equal noise; where there are references, its part in the
distance to these, as a multiple of the parent's, negated. It runs in the environment of `diffusion`.
"""

import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.jobs.run import Running, read_json, run
from optimization.items import DISTANCE, SIMILARITY, BadItems
from optimization.picture_items import PictureItem, read_picture_set
from optimization.programs.making import OFFLINE, missing_environment
from optimization.programs.scoring import SCORES
from optimization.recipes.order import RecipeRefusal

FEATURE_NETWORK = "feature-network"
"""Directory beside the test set with a vision model that is used instead of the fixed filters."""
BATCH = 4
MOST_SIDE = 256
"""References are read at the size of the pictures, and both no larger than this."""


def score(running: Running) -> Mapping[str, Any]:
    """Return where the scores lie and the seconds of each batch, or `refused` with the reason."""
    told = read_json()
    if gone := missing_environment(told):
        return {"refused": gone}
    place = Path(told["output"])
    place.mkdir(parents=True, exist_ok=True)
    try:
        lines, found = scored(told, running)
    except (BadItems, RecipeRefusal, OSError, ValueError) as error:
        return {"refused": str(error)}
    (place / SCORES).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"items": len(lines), "path": str(place / SCORES), **found}


def scored(told: Mapping[str, Any], running: Running) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the scores, and `{seconds, distance}` of both sides. Raises BadItems, RecipeRefusal, OSError,
    ValueError."""
    import torch

    from optimization.programs import features

    test = Path(told["test"])
    wanted = read_picture_set(test)
    pictures, seconds = _drawn(told, wanted.items, running)
    network_of_test = test.parent / FEATURE_NETWORK
    network = (
        features.ModelFeatures(network_of_test) if network_of_test.is_dir() else features.FixedFeatures()
    )
    running.report({"stage": "comparing pictures", "done": 0, "total": 1})
    ours, theirs = (features.features_of(pictures[side], network) for side in ("parent", "child"))
    for side, found in (("parent", ours), ("child", theirs)):
        if not torch.isfinite(found).all():
            raise RecipeRefusal(f"The {side}: its pictures hold values that are no numbers.")
    scores = {SIMILARITY: (torch.ones(len(ours)), features.likeness(theirs, ours, ours))}
    more: dict[str, Any] = {"seconds": seconds}
    if wanted.references:
        size = pictures["parent"].shape[2:]
        reference = features.features_of(_read(wanted.references, size), network)
        parts = [features.distance_parts(one, reference) for one in (ours, theirs)]
        # A distance that cannot be told from none is no measure: then its own uncertainty is.
        unit = max(float(parts[0].mean()), float(parts[0].std()) / math.sqrt(len(ours)), 1e-12)
        scores[DISTANCE] = (-parts[0] / unit, -parts[1] / unit)
        more["distance"] = {
            side: float(one.mean()) for side, one in zip(("parent", "child"), parts, strict=True)
        }
    lines = [
        {
            "item": item.digest,
            "metric": metric,
            "parent": float(mine),
            "child": float(other),
            "text": _told(item),
        }
        for metric, (all_mine, all_other) in scores.items()
        for item, mine, other in zip(wanted.items, all_mine, all_other, strict=True)
    ]
    return lines, more


def _told(item: PictureItem) -> str:
    return f"{item.seed} {item.prompt}".strip()[:200]


def _drawn(
    told: Mapping[str, Any], items: Sequence[PictureItem], running: Running
) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Return the pictures of both sides, and the seconds of each batch; the first, which warms up, is drawn
    twice."""
    import torch

    from optimization.recipes.diffusion.pipelines import distilled_steps, load

    sides = {}
    for side in ("parent", "child"):
        directory = Path(told[side])
        trained = distilled_steps(directory)
        guidance = 1.0 if trained else float(told.get("guidance") or 1.0)
        sides[side] = (load(directory), trained or int(told["steps"]), guidance)
    made: dict[str, list[Any]] = {side: [] for side in sides}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    batches = [items[begin : begin + BATCH] for begin in range(0, len(items), BATCH)]
    for number, batch in enumerate([batches[0], *batches]):
        # Who is first takes turns: neither always has the cooler processor.
        for side in sorted(sides, reverse=bool(number % 2)):
            began = time.perf_counter()
            found = _pictures(*sides[side], batch)
            if number:
                made[side].append(torch.from_numpy(found).permute(0, 3, 1, 2))
                seconds[side].append((time.perf_counter() - began) / len(batch))
        running.report({"stage": "drawing pictures", "done": number, "total": len(batches)})
    return {side: _at_most(torch.cat(some)) for side, some in made.items()}, seconds


def _pictures(pipeline: Any, steps: int, guidance: float, batch: Sequence[PictureItem]) -> Any:
    import torch

    noise = [torch.Generator().manual_seed(item.seed) for item in batch]
    order: dict[str, Any] = {"num_inference_steps": steps, "generator": noise, "output_type": "np"}
    takes_prompts = getattr(pipeline, "text_encoder", None) is not None
    if takes_prompts and not batch[0].prompt:
        raise RecipeRefusal("The pipeline takes prompts: give one in each line of the test set with a seed.")
    if takes_prompts:
        order |= {"prompt": [item.prompt for item in batch], "guidance_scale": guidance}
    else:
        order["batch_size"] = len(batch)
    with torch.inference_mode():
        return pipeline(**order).images


def _at_most(pictures: Any) -> Any:
    import torch

    sides = [min(side, MOST_SIDE) for side in pictures.shape[2:]]
    return torch.nn.functional.interpolate(pictures.float(), sides, mode="area")


def _read(paths: Sequence[Path], size: Sequence[int]) -> Any:
    import torch
    from numpy import asarray
    from PIL import Image

    found = []
    for path in paths:
        with Image.open(path) as picture:
            fitted = picture.convert("RGB").resize((size[1], size[0]), Image.Resampling.BOX)
        found.append(torch.from_numpy(asarray(fitted).copy()).permute(2, 0, 1).float() / 255)
    return torch.stack(found)


if __name__ == "__main__":
    os.environ.update(OFFLINE)
    sys.exit(run(score))
