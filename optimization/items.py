"""Items of test and calibration sets: JSON lines. Pure; docs/OPTIMISATION.md has the format."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

LEAST_ITEMS = 20
"""Below, nothing is judged."""
LEAST_CALIBRATION = 8
MOST_BYTES = 64 * 1024 * 1024

Metric = Literal["perplexity", "accuracy"]
BINARY: frozenset[str] = frozenset({"accuracy", "acc", "acc_norm", "exact_match"})
DISTANCE, SIMILARITY, SCORER = "distance", "similarity", "score"
"""Distance of pictures to references, as a multiple of the parent's; likeness to the parent's pictures, up to
1; what a team's own scorer says, from 0 to 1."""


def is_binary(metric: str) -> bool:
    """Whether its scores are 0 or 1. Metrics of a task file are `task:metric`."""
    return _plain(metric) in BINARY


def is_share(metric: str) -> bool:
    """Whether its differences are told in points, else its scores are nats."""
    return is_binary(metric) or _plain(metric) in {DISTANCE, SIMILARITY, SCORER}


def is_higher_better(metric: str) -> bool:
    """Whether people want more of its value. Scores are always better when they are higher."""
    return is_share(metric) and _plain(metric) != DISTANCE


def _plain(metric: str) -> str:
    return metric.rpartition(":")[2]


class BadItems(Exception):
    """The set cannot be used; the text says which line, and why."""


@dataclass(frozen=True, slots=True)
class EvalItem:
    """A text whose likelihood counts, or a prompt with choices of which one is right."""

    digest: str
    text: str
    choices: Sequence[str] = ()
    answer: int = 0

    @property
    def metric(self) -> Metric:
        return "accuracy" if self.choices else "perplexity"


def read_items(path: Path) -> list[EvalItem]:
    """Raises BadItems, OSError."""
    items = [_item(told, place) for told, place in json_objects(path)]
    if len({one.digest for one in items}) < len(items):
        raise BadItems(f"{path.name} has the same item more than once: each may count once.")
    return items


def json_objects(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the object of each line with content, and the line's place in words. Raises BadItems, OSError."""
    if path.stat().st_size > MOST_BYTES:
        raise BadItems(f"{path.name} is larger than {MOST_BYTES // 2**20} MiB.")
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except UnicodeDecodeError:
            raise BadItems(f"{path.name} is not UTF-8 text with one JSON object per line.") from None
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise BadItems(f"Line {number} of {path.name} is no JSON object.")
        yield told, f"line {number} of {path.name}"


def _item(told: dict[str, object], place: str) -> EvalItem:
    text, choices = told.get("text", told.get("prompt")), told.get("choices")
    if not isinstance(text, str) or not text.strip():
        raise BadItems(f"Give a text, or a prompt with choices and answer, in {place}.")
    digest = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]
    if choices is None:
        return EvalItem(digest, text)
    answer = told.get("answer")
    is_list = isinstance(choices, list) and len(choices) > 1 and all(isinstance(one, str) for one in choices)
    if not is_list or not isinstance(answer, int) or not 0 <= answer < len(choices):  # type: ignore[arg-type]
        raise BadItems(f"Give two choices at least, and the number of the right one from 0 on, in {place}.")
    return EvalItem(digest, text, tuple(choices), answer)  # type: ignore[arg-type]
