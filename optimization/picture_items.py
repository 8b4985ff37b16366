"""Test sets of versions that draw pictures: JSON lines with seeds, prompts and pictures to compare with.

A line is a picture to draw (`{"seed": 7}`, with `"prompt"` where the pipeline takes one) or one to compare
with (`{"picture": "cats/1.png"}`, a file beside the set).
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from optimization.items import LEAST_ITEMS, BadItems, json_objects

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
LEAST_REFERENCES = 20
MOST_SEED = 2**63


@dataclass(frozen=True, slots=True)
class PictureItem:
    seed: int
    prompt: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.seed} {self.prompt}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class PictureSet:
    """`references`: files to compare with; none: the parent's pictures alone are compared with."""

    items: Sequence[PictureItem]
    references: Sequence[Path]


def read_picture_set(path: Path) -> PictureSet:
    """Raises BadItems, OSError."""
    lines = list(_lines(path))
    items = [one for one in lines if isinstance(one, PictureItem)]
    references = [one for one in lines if isinstance(one, Path)]
    if len(items) < LEAST_ITEMS:
        raise BadItems(f"The test set needs {LEAST_ITEMS} seeds; {path.name} has {len(items)}.")
    if len(set(items)) < len(items) or len(set(references)) < len(references):
        raise BadItems(f"{path.name} has the same line more than once: each may count once.")
    if references and len(references) < LEAST_REFERENCES:
        raise BadItems(
            f"{path.name} names {len(references)} pictures to compare with; {LEAST_REFERENCES} are needed, "
            "or none."
        )
    if len({bool(one.prompt) for one in items}) > 1:
        raise BadItems(f"Give a prompt in all lines of {path.name} with a seed, or in none.")
    return PictureSet(items, references)


def _lines(path: Path) -> Iterator[PictureItem | Path]:
    for told, place in json_objects(path):
        yield _reference(told["picture"], path, place) if "picture" in told else _item(told, place)


def _item(told: dict[str, object], place: str) -> PictureItem:
    seed, prompt = told.get("seed"), told.get("prompt", "")
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < MOST_SEED:
        raise BadItems(f"Give a whole number as seed, or the name of a picture, in {place}.")
    if not isinstance(prompt, str):
        raise BadItems(f"The prompt must be a text in {place}.")
    return PictureItem(seed, prompt)


def _reference(named: object, path: Path, place: str) -> Path:
    parts = PurePosixPath(named).parts if isinstance(named, str) else ()
    found = path.parent.joinpath(*parts)
    if not parts or ".." in parts or parts[0] == "/" or not found.is_file():
        raise BadItems(f"The version has no picture {named}, which is named in {place}.")
    if found.suffix.lower() not in SUFFIXES:
        raise BadItems(f"{named} in {place} must be one of {', '.join(SUFFIXES)}.")
    return found
