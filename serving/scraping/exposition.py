"""Metrics as Prometheus reads them, in text.

https://prometheus.io/docs/instrumenting/exposition_formats/ (0.0.4). Lines that cannot be read are passed
over: what a server adds in its next version must not hide what was there before.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cumulative, over all series of a name."""

    counts: Mapping[float, float] = field(default_factory=dict)
    """By upper bound, ascending, the last one infinite."""

    @property
    def count(self) -> float:
        return self.counts.get(math.inf, 0.0)

    def since(self, before: "Histogram") -> "Histogram":
        """Return what came after `before`; bounds that it did not have count from nothing."""
        return Histogram({le: n - before.counts.get(le, 0.0) for le, n in self.counts.items()})

    def quantile(self, share: float) -> float:
        """Return the quantile like Prometheus' histogram_quantile: linear within a bucket, the last finite
        bound beyond it; 0.0 when it is empty.
        """
        rank = share * self.count
        low, below = 0.0, 0.0
        for bound, count in self.counts.items():
            if count >= rank and count > below:
                if math.isinf(bound):
                    return low
                return low + (bound - low) * (rank - below) / (count - below)
            if not math.isinf(bound):
                low = bound
            below = count
        return low


class MetricSamples:
    def __init__(self, text: str) -> None:
        self._found: dict[str, list[Sample]] = {}
        for name, sample in _samples(text):
            self._found.setdefault(name, []).append(sample)

    def __bool__(self) -> bool:
        return bool(self._found)

    def of(self, name: str) -> list[Sample]:
        return self._found.get(name, [])

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def total(self, name: str, *, needed: Collection[str] = (), **labels: str) -> float:
        """The sum over all series of this name with these labels, and some value of those that are needed;
        0.0 where there is none."""
        return sum(
            sample.value
            for sample in self._found.get(name, ())
            if labels.items() <= sample.labels.items()
            and all(sample.labels.get(label) for label in needed)
            and math.isfinite(sample.value)
        )

    def histogram(self, *names: str) -> Histogram | None:
        """Return the histogram of the first of these names that is there, over all its series."""
        for name in names:
            counts: dict[float, float] = {}
            for one in self._found.get(f"{name}_bucket", ()):
                try:
                    bound = float(one.labels["le"])
                except (KeyError, ValueError):
                    continue
                counts[bound] = counts.get(bound, 0.0) + one.value
            if counts:
                return Histogram(dict(sorted(counts.items())))
        return None


def _samples(text: str) -> Iterator[tuple[str, Sample]]:
    for line in text.splitlines():
        if line.startswith("#") or not (found := _LINE.fullmatch(line)):
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        yield found[1], Sample(dict(_LABEL.findall(found[2] or "")), value)
