"""The canary judge: promote, roll back, or not enough evidence. Pure: data in, verdict out; no clock, no I/O.

A release reads the gateway's counts every few seconds, turns two readings into an `Increment`
(`increments_between`), adds it to its stored `Evidence` (`evidence.after`) and asks for a `verdict`.
"""

from releases.judge.counts import CountsLike, increments_between
from releases.judge.curve import CurvePoint, Limits, curve_point, extend_curve, limits
from releases.judge.evidence import Evidence, Increment, IndicatorEvidence, Sides, Tally
from releases.judge.progress import IndicatorProgress
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules
from releases.judge.threshold import Threshold, threshold
from releases.judge.verdict import Decision, Verdict, verdict

__all__ = [
    "CountsLike",
    "CurvePoint",
    "Decision",
    "Evidence",
    "Increment",
    "IndicatorEvidence",
    "IndicatorName",
    "IndicatorProgress",
    "IndicatorRules",
    "JudgeRules",
    "Limits",
    "Sides",
    "Tally",
    "Threshold",
    "Verdict",
    "curve_point",
    "extend_curve",
    "increments_between",
    "limits",
    "threshold",
    "verdict",
]
