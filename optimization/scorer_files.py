"""A team's own scorer as a test set: a Python file with `score(item, answer)`, its items beside it.

`polite.py` has its items in `polite.jsonl`: objects with a `prompt`, and whatever else the scorer reads.
Nothing of the file is run here.
"""

import ast
import hashlib
import json
from pathlib import Path
from typing import Any

from optimization.items import LEAST_ITEMS, BadItems, json_objects

SUFFIX = ".py"
FUNCTION = "score"
MOST_CODE_BYTES = 1024 * 1024
MOST_TOKENS = 512


def is_scorer(path: str) -> bool:
    return path.endswith(SUFFIX)


def read_scorer(path: Path) -> list[dict[str, Any]]:
    """Return the items of a scorer, once the file has been looked at. Raises BadItems, OSError."""
    if path.stat().st_size > MOST_CODE_BYTES:
        raise BadItems(f"{path.name} is larger than {MOST_CODE_BYTES // 2**20} MiB.")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise BadItems(f"{path.name} is no Python: {error}.") from None
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == FUNCTION]
    if not found or len(found[0].args.args) != 2:
        raise BadItems(f"{path.name} needs a function {FUNCTION}(item, answer) that returns a number.")
    data = path.with_suffix(".jsonl")
    if not data.is_file():
        raise BadItems(f"The items of {path.name} must lie beside it, in {data.name}.")
    items = [_item(told, place) for told, place in json_objects(data)]
    if len(items) < LEAST_ITEMS:
        raise BadItems(f"The test set needs {LEAST_ITEMS} items; {data.name} has {len(items)}.")
    if len({digest_of(one) for one in items}) < len(items):
        raise BadItems(f"{data.name} has the same item more than once: each may count once.")
    return items


def digest_of(item: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(item, sort_keys=True).encode()).hexdigest()[:16]


def _item(told: dict[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(told.get("prompt"), str) or not told["prompt"].strip():
        raise BadItems(f"Give a prompt in {place}.")
    most = told.get("max_tokens", 1)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST_TOKENS:
        raise BadItems(f"max_tokens must be from 1 to {MOST_TOKENS} in {place}.")
    return told
