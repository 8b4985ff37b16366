"""What a rule of validity is."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.figures import Summary
from benchmarks.load.scenario import LoadScenario


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    rate: float
    value: float
    limit: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ValidityRule:
    name: str
    words: str
    """Text to be translated, with %(value)s and %(limit)s."""
    limit: float
    value: Callable[[Summary, LoadScenario], float | None]
    """Broken where this is greater than the limit; None: the window does not tell."""
    relative: tuple[str, float] | None = None
    """A figure and a share of it, which is the limit where it is greater."""
    is_measuring: bool = True
    """Whether the measurement is at fault, which makes the whole run invalid; else the window alone is."""

    def judge(self, summary: Summary, scenario: LoadScenario) -> Violation | None:
        limit = self.limit
        if self.relative is not None:
            limit = max(limit, self.relative[1] * (summary.value(self.relative[0]) or 0))
        value = self.value(summary, scenario)
        if value is None or value <= limit:
            return None
        return Violation(self.name, summary.rate, round(value, 4), round(limit, 4))
