"""Benchmarks of the candidate's and the stable version side by side, for whoever decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop

from benchmarks.evaluations import HIGHER_IS_BETTER
from benchmarks.selectors import versions_measured
from benchmarks.statistics import MeanEstimate, RatioEstimate
from benchmarks.styles import unit_of_rate
from common.pages.formats import three_digits
from releases.models import Release

SHOWN: Mapping[str, str] = {
    "output_rate": gettext_noop("Throughput"),
    "goodput": gettext_noop("Goodput"),
    "ttft_p50": "TTFT p50",
    "ttft_p95": "TTFT p95",
    "tpot_p50": "TPOT p50",
    "tpot_p95": "TPOT p95",
}
VERDICTS: Mapping[str, tuple[Any, str]] = {
    "better": (gettext_lazy("Better"), "good"),
    "worse": (gettext_lazy("Worse"), "bad"),
    "no difference": (gettext_lazy("No significant difference"), ""),
    "no verdict": (gettext_lazy("No verdict"), ""),
}


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    label: str
    unit: str
    sides: Sequence[tuple[str, str]]
    """Value and 95 % interval of the candidate, of stable, and of the first over the second."""
    verdict: str
    tone: str


@dataclass(frozen=True, slots=True)
class MeasuredTable:
    load: str
    benchmarks: Sequence[Any]
    """One that measured both, or the candidate's and stable's."""
    rows: Sequence[MeasuredRow]


def measured_of(release: Release) -> MeasuredTable | None:
    """Return the figures of both versions; None where no benchmarks measured them alike."""
    if release.from_version_id is None:
        return None
    found = versions_measured(ours=release.version_id, theirs=release.from_version_id, team=release.team_id)
    if found is None:
        return None
    rows = [
        MeasuredRow(
            _(label),
            ours.unit,
            (
                _with_interval(ours.value, ours.value.value),
                _with_interval(theirs.value, theirs.value.value),
                _with_interval(ratio, ratio.ratio),
            ),
            *VERDICTS[_verdict(name, ratio)],
        )
        for name, label in SHOWN.items()
        if name in found.figures
        for ours, theirs, ratio in [found.figures[name]]
    ]
    of = found.ours.benchmark
    benchmarks = list(dict.fromkeys([of, found.theirs.benchmark]))
    return MeasuredTable(f"{found.rate:g} {unit_of_rate(of.scenario.load)}", benchmarks, rows)


def _verdict(name: str, ratio: RatioEstimate) -> str:
    if ratio.verdict not in ("higher", "lower"):
        return ratio.verdict
    return "better" if (ratio.verdict == "higher") == (name in HIGHER_IS_BETTER) else "worse"


def _with_interval(told: MeanEstimate | RatioEstimate, value: float) -> tuple[str, str]:
    """Return the value and its interval, which is empty where there is one repeat."""
    if told.low is None or told.high is None:
        return three_digits(value), ""
    return three_digits(value), f"{three_digits(told.low)}–{three_digits(told.high)}"
