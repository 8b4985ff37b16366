"""What is required of a figure: a count, or a ratio to something measured in the same run."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequiredFigure:
    name: str
    value: str
    required: str = ""
    """Empty: it is only told."""
    holds: bool = True


def at_most(name: str, value: float, limit: float) -> RequiredFigure:
    return RequiredFigure(name, f"{value:.3g}", f"at most {limit:g}", value <= limit)


def at_least(name: str, value: float, limit: float) -> RequiredFigure:
    return RequiredFigure(name, f"{value:.3g}", f"at least {limit:g}", value >= limit)


def report(rows: Sequence[RequiredFigure]) -> int:
    """Print them; the exit status: 1 when one does not hold."""
    width = max(len(row.name) for row in rows)
    for row in rows:
        told = f"   ({row.required}{'' if row.holds else ': NOT MET'})" if row.required else ""
        print(f"{row.name:<{width}}  {row.value}{told}")
    return int(not all(row.holds for row in rows))
