"""Figures that are measured again and again, such as switch times."""

LEARNING = 0.3
"""Share of the newest measurement."""


def learned(before: float | None, measured: float) -> float:
    """Return the smoothed figure; the first measurement counts in full."""
    return measured if before is None else before + LEARNING * (measured - before)
