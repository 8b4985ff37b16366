"""A series as Prometheus scraped it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScrapedSeries:
    labels: Mapping[str, str]
    """With `__name__`."""
    samples: Sequence[tuple[float, float]]
    """Seconds since 1970, and value: as scraped, nothing in between."""
