from django.utils.translation import gettext_noop

from benchmarks.figures import SAMPLE_FLOORS, Summary
from benchmarks.load.scenario import LoadScenario
from benchmarks.validity.rule import ValidityRule


def _missing(summary: Summary, scenario: LoadScenario) -> float | None:
    """Requests that lack for the percentile that the share within the targets is about."""
    if scenario.targets.is_empty:
        return SAMPLE_FLOORS[50] - summary.counted
    floors = [floor for percent, floor in SAMPLE_FLOORS.items() if percent >= scenario.targets.share * 100]
    return min(floors, default=SAMPLE_FLOORS[99]) - summary.counted


RULE = ValidityRule(
    name="samples",
    words=gettext_noop("Too few requests for the targets' percentile: %(value)s more are needed."),
    limit=0,
    value=_missing,
    is_measuring=False,
)
