"""Conditions such as `ttft_p95 > 1.05` under which a comparison fails a pipeline."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from slipway.exits import CommandFailed, Exit

_SHAPE = re.compile(r"\s*([a-z0-9_]+)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class FailureCondition:
    figure: str
    sign: str
    limit: float

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises CommandFailed."""
        found = _SHAPE.fullmatch(text)
        if found is None:
            message = (
                f"{text!r} is not a condition: give a figure, > or <, and a ratio, such as 'ttft_p95 > 1.05'."
            )
            raise CommandFailed(message, Exit.USAGE)
        return cls(found[1], found[2], float(found[3]))

    def met(self, figures: Iterable[Mapping[str, Any]]) -> str:
        """Return the ratios that meet it, in words; empty: none does. Those without a verdict count, too.

        Raises CommandFailed when the comparison has no such figure.
        """
        rows = [one for one in figures if one["name"] == self.figure]
        if not rows:
            raise CommandFailed(f"The comparison has no figure {self.figure}.", Exit.USAGE)
        met = [one for one in rows if _COMPARE[self.sign](one["ratio"], self.limit)]
        return ", ".join(f"{one['ratio']:.3f} at {one['rate']:g} ({one['verdict']})" for one in met)

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.limit:g}"
