"""System figures of a run as series of even steps, for charts. Pure."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

MOST_POINTS = 600


def series_of(samples: Sequence[Mapping[str, Any]], most: int = MOST_POINTS) -> dict[str, Any]:
    """Return `{began, step, series}` of `{at, values}`: seconds since 1970, seconds, and values by name.

    A step without a sample is None: nothing is filled in. Long runs have longer steps, which are means.
    """
    if not samples:
        return {}
    began, last = float(samples[0]["at"]), float(samples[-1]["at"])
    step = max(1, math.ceil((last - began + 1) / most))
    count = math.floor((last - began + 0.5) / step) + 1
    found: dict[str, list[list[float]]] = {}
    for sample in samples:
        # Looks are a little late or early; half a second decides which second they are of.
        place = min(count - 1, math.floor((sample["at"] - began + 0.5) / step))
        for name, value in sample["values"].items():
            found.setdefault(name, [[] for _ in range(count)])[place].append(value)
    series = {
        name: [round(fmean(some), 4) if some else None for some in places]
        for name, places in sorted(found.items())
    }
    return {"began": began, "step": step, "series": series}
