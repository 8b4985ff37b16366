from django.utils.translation import gettext_noop

from benchmarks.figures import Summary
from benchmarks.load.scenario import LoadScenario
from benchmarks.validity.rule import ValidityRule

LEAST_T = 3.0
"""The growth must stand out from the noise, too."""
LEAST_MEAN = 2.0
"""Requests in flight: with fewer, single ones are the growth."""


def _growth(summary: Summary, scenario: LoadScenario) -> float | None:
    if scenario.is_closed_loop:
        return None
    is_clear = summary.in_flight_t >= LEAST_T and (summary.value("in_flight") or 0) >= LEAST_MEAN
    return summary.in_flight_slope if is_clear else None


RULE = ValidityRule(
    name="saturation",
    words=gettext_noop(
        "Saturated: requests in flight grew by %(value)s of their mean during the window, limit %(limit)s."
    ),
    limit=0.5,
    value=_growth,
    is_measuring=False,
)
"""Share: latency is then a function of how long the window is."""
