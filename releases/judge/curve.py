"""The judge's evidence over time, to be drawn as one growing curve per indicator against its two limits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from releases.judge.evidence import JudgeEvidence
from releases.judge.rules import IndicatorName, JudgeRules

LOWEST = -6.0
"""Curves are cut off here: a millionth and a millionth of a millionth are drawn, and mean, the same."""


@dataclass(frozen=True, slots=True)
class CurveLimits:
    """Limits, log10 of the e-values; `accept` is None for an indicator that certifies nothing."""

    reject: float
    accept: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of the curve: log10 of each indicator's e-values at one look."""

    at: float
    """Seconds since the epoch."""
    reject: Mapping[IndicatorName, float]
    accept: Mapping[IndicatorName, float]
    """Without the indicators that certify nothing."""

    def to_dict(self) -> dict[str, Any]:
        return {"at": self.at, "reject": dict(self.reject), "accept": dict(self.accept)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(at=data["at"], reject=data["reject"], accept=data["accept"])


def limits(rules: JudgeRules) -> dict[IndicatorName, CurveLimits]:
    """Return the limits at which each indicator's curve ends."""
    return {
        name: CurveLimits(
            reject=rules.log_reject_limit / math.log(10),
            accept=rules.log_accept_limit / math.log(10) if indicator.certifies else None,
        )
        for name, indicator in rules.judged.items()
    }


def curve_point(evidence: JudgeEvidence, rules: JudgeRules, *, at: float) -> CurvePoint:
    """The evidence as it stands, `at` seconds since the epoch."""
    return CurvePoint(
        at=at,
        reject={name: _log10(part.log_reject) for name, part in evidence.indicators.items()},
        accept={
            name: _log10(part.log_accept)
            for name, part in evidence.indicators.items()
            if rules.judged[name].certifies
        },
    )


def _log10(natural_log: float) -> float:
    return round(max(natural_log / math.log(10), LOWEST), 4)
