"""Recipes as data: `<family>/<name>/recipe.json` beside the programs of its family. Imports no Django.

A family with a `requirements.lock` runs in an environment of its own; one without runs where Slipway does.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parent
LOCK = "requirements.lock"
RECIPE = "recipe.json"

ParameterKind = Literal["whole", "number", "choice"]
Words = Mapping[str, str]
"""A text by language; `en` is always there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeParameter:
    """A parameter: `whole` and `number` lie within `least` and `most`, `choice` is one of `choices`."""

    name: str
    label: Words
    kind: ParameterKind
    default: Any
    help: Words = field(default_factory=dict)
    least: float | None = None
    most: float | None = None
    choices: Sequence[Any] = ()

    def fault(self, value: Any) -> str:
        """Return why it cannot have the value, in English; empty: it can."""
        if self.kind == "choice":
            return "" if value in self.choices else f"one of {', '.join(map(str, self.choices))}"
        kinds = int if self.kind == "whole" else (int, float)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if is_number and (self.least or 0) <= value and (self.most is None or value <= self.most):
            return ""
        what = "a whole number" if self.kind == "whole" else "a number"
        return f"{what} from {self.least or 0:g} to {self.most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizationRecipe:
    """`program`: a module of its family with `make(order, report)`; `fixed`: parameters that nobody sets.

    `memory_factor`: memory of a run per byte of the parent's weights; `seconds_per_gb`: its time for each
    10^9 of these bytes on a processor.
    """

    family: str
    key: str
    title: Words
    about: Words
    program: str
    parameters: Sequence[RecipeParameter] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    needs_calibration: bool = False
    makes: Literal["texts", "pictures"] = "texts"
    """What its models write; pictures: diffusers' layout, and a test set of seeds."""
    engines: Sequence[str] = ()
    """That load its output."""
    memory_factor: float = 3.0
    seconds_per_gb: float = 60.0
    most_error: float = 0.2
    """Largest relative error of a tiny model's logits in the self-test of its environment."""
    needs_gpu: bool = False
    self_test: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of its self-test."""
    digest: str = ""
    """Of its data, the programs of its family and the lock."""

    @property
    def name(self) -> str:
        return f"{self.family}/{self.key}"

    @property
    def module(self) -> str:
        return f"optimization.recipes.{self.family}.{self.program}"

    @property
    def lock(self) -> str:
        """The text of its family's lock; empty: it runs where Slipway does."""
        return lock_of(self.family)

    def values(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return all parameters, and what is wrong with the given ones, by name."""
        known = {one.name: one for one in self.parameters}
        faults = {
            name: f"{self.name} has no such parameter. Known: {', '.join(known) or 'none'}."
            for name in given
            if name not in known
        }
        values = {name: given.get(name, one.default) for name, one in known.items()}
        for name, value in values.items():
            if fault := known[name].fault(value):
                faults[name] = f"It must be {fault}."
        return {**values, **self.fixed}, faults


def lock_of(family: str) -> str:
    file = ROOT / family / LOCK
    return file.read_text() if file.exists() else ""


@cache
def recipes() -> Mapping[str, OptimizationRecipe]:
    """Return all recipes by name."""
    return {one.name: one for one in _read()}


def _read() -> Iterator[OptimizationRecipe]:
    for file in sorted(ROOT.glob(f"*/*/{RECIPE}")):
        family, key = file.parts[-3:-1]
        told = json.loads(file.read_bytes())
        parameters = [RecipeParameter(**one) for one in told.pop("parameters", ())]
        digest = hashlib.sha256(file.read_bytes())
        for part in [*sorted((ROOT / family).glob("*.py")), ROOT / family / LOCK]:
            digest.update(part.read_bytes() if part.exists() else b"")
        yield OptimizationRecipe(
            family=family, key=key, parameters=parameters, digest=digest.hexdigest(), **told
        )
