"""What a version reached in an evaluation: as its model card tells, or as people and CI recorded it. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any, Literal

from kube.untrusted_yaml import BadYaml, load

MAX_FIGURES = 200
_NUMBER = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)\s*(%?)", re.ASCII)

Origin = Literal["card", "recorded"]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Figure:
    """`by` and `at` are empty for what the card tells; `is_higher_better` is None where nobody told."""

    name: str
    dataset: str
    value: float
    unit: str = ""
    is_higher_better: bool | None = None
    task: str = ""
    origin: Origin = "recorded"
    by: str = ""
    at: datetime | None = None
    link: str = ""

    @property
    def key(self) -> Key:
        return self.dataset.casefold(), self.name.casefold()

    @property
    def text(self) -> str:
        """The value with its unit, for people."""
        return _shown(self.value, self.unit)


@dataclass(frozen=True, slots=True)
class FigureChange:
    """A figure of two versions; None where a version has none."""

    before: Figure | None
    after: Figure | None

    @property
    def either(self) -> Figure:
        found = self.after or self.before
        assert found is not None  # noqa: S101
        return found

    @property
    def difference(self) -> float | None:
        """The difference; None if a figure is missing or the units differ."""
        if not self.before or not self.after or self.before.unit != self.after.unit:
            return None
        # As people subtract them: 0.9 - 0.8 is 0.1, not 0.09999999999999998.
        return float(Decimal(repr(self.after.value)) - Decimal(repr(self.before.value)))

    @property
    def difference_text(self) -> str:
        difference = self.difference
        if difference is None:
            return ""
        return ("+" if difference > 0 else "") + _shown(difference, self.either.unit)

    @property
    def is_better(self) -> bool | None:
        """Whether the figure improved; None if it did not change, or nobody said which way is better."""
        direction = self.either.is_higher_better
        if direction is None and self.before:
            direction = self.before.is_higher_better
        return (self.difference > 0) == direction if self.difference and direction is not None else None


def _shown(value: float, unit: str) -> str:
    return f"{value:.15g}{'' if unit in ('', '%') else ' '}{unit}"


def compared_figures(before: Sequence[Figure], after: Sequence[Figure]) -> tuple[FigureChange, ...]:
    """Compare figures by dataset and name; a recorded figure precedes one of the model card."""
    one, other = _by_key(before), _by_key(after)
    return tuple(FigureChange(one.get(key), other.get(key)) for key in sorted(one.keys() | other.keys()))


def _by_key(figures: Sequence[Figure]) -> dict[Key, Figure]:
    found: dict[Key, Figure] = {}
    for figure in sorted(figures, key=lambda figure: figure.origin != "recorded"):
        found.setdefault(figure.key, figure)
    return found


def figures_of_card(front: str) -> tuple[Figure, ...]:
    """The `model-index` of a card's front matter; see https://huggingface.co/docs/hub/model-cards.

    Empty where there is none or it makes no sense. What is no number is left out.
    """
    try:
        told = load(front)
    except BadYaml:
        return ()
    index = told.get("model-index") if isinstance(told, dict) else None
    return tuple(islice(_figures(index), MAX_FIGURES))


def _figures(index: Any) -> Iterator[Figure]:
    for model in _dicts(index):
        for result in _dicts(model.get("results")):
            dataset, task, source = (_dict(result.get(key)) for key in ("dataset", "task", "source"))
            for metric in _dicts(result.get("metrics")):
                name = _text(metric, "name") or _text(metric, "type")
                found = _NUMBER.fullmatch(_text(metric, "value"))
                value = float(found[1]) if found else math.nan
                if found and name and math.isfinite(value):
                    yield Figure(
                        name=name[:100],
                        dataset=(_text(dataset, "name") or _text(dataset, "type"))[:200],
                        value=value,
                        unit=found[2],
                        task=(_text(task, "type") or _text(task, "name"))[:100],
                        origin="card",
                        link=_text(source, "url")[:1_000],
                    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: dict[str, Any], key: str) -> str:
    found = value.get(key, "")
    return found.strip() if isinstance(found, str) else ""
