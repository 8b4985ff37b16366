"""What the judge knows of a release, for an approver to decide in a minute: numbers, then the reasoning."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from clusters.selectors import DeploymentStatus
from clusters.states import Alert, WorkerState
from common.pages import formats
from common.pages.charts import Chart
from common.sentences import listed
from releases.judge.evidence import JudgeEvidence
from releases.judge.progress import IndicatorProgress
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules
from releases.judge.threshold import Threshold
from releases.judge.verdict import DOUBT, JudgeVerdict
from releases.judge.words import SURE_LOG_E, chance, noun_in_sentence, noun_of, timed
from releases.models import Release
from releases.plans.plan import PlanSpec
from releases.states import ReleaseState

STATES = ("none", "insufficient", "promote", "roll_back")
"""Of one indicator: the words and icons are those of the whole verdict."""


@dataclass(frozen=True, slots=True)
class IndicatorRow:
    """A kind of bad answer as the page shows it."""

    name: IndicatorName
    title: str
    chart: Chart
    progress: IndicatorProgress | None
    """None before the first look."""
    state: str
    """One of STATES."""

    @property
    def key(self) -> str:
        return live_key(self.name)

    @property
    def chart_id(self) -> str:
        return f"evidence-{self.key}"

    states = STATES


def live_key(name: IndicatorName) -> str:
    """The name as live values and elements of the page carry it."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def title_of(name: IndicatorName, threshold_ms: float | None) -> str:
    """`5xx`, `Slow (> 320 ms)`, `refused`, `/detect (> 320 ms)`"""
    if threshold_ms is None:
        return noun_of(name)
    words = {"what": timed(name), "duration": formats.duration(threshold_ms / 1000)}
    return (_("Slow (> %(duration)s)") if name == "slow" else _("%(what)s (> %(duration)s)")) % words


def p95_words(candidate_ms: float | None, stable_ms: float | None) -> str:
    """`p95 340 ms, stable 320 ms (+6 %)`; empty unless both are measured."""
    if not candidate_ms or not stable_ms:
        return ""
    return _("p95: candidate %(candidate)s, stable %(stable)s (%(change)s %%).") % {
        "candidate": formats.duration(candidate_ms / 1000),
        "stable": formats.duration(stable_ms / 1000),
        "change": f"{100 * (candidate_ms / stable_ms - 1):+.0f}",
    }


def saturation_warning(stable: DeploymentStatus | None) -> str:
    """Return a warning; empty unless all of its ready workers are saturated."""
    ready = [worker for worker in stable.workers if worker.state == WorkerState.READY] if stable else []
    if not ready or any(worker.alert != Alert.SATURATED for worker in ready):
        return ""
    return _(
        "Stable is saturated: its requests wait for a free slot. Being as slow as stable proves nothing now."
    )


def state_of(progress: IndicatorProgress | None, verdict: JudgeVerdict | None) -> str:
    if progress is None or verdict is None:
        return "none"
    if verdict.culprit == progress.name:
        return "roll_back"
    is_sure = progress.certified and progress.reject_progress < DOUBT and not progress.in_outage
    return "promote" if is_sure else "insufficient"


FORECASTS = ("none", "requests", "seconds")


def forecast_of(verdict: JudgeVerdict | None) -> str:
    """Return what is known of how long it takes, one of FORECASTS: nothing, so many requests, or when."""
    if verdict is None or not verdict.requests_to_certify:
        return "none"
    return "requests" if verdict.seconds_to_certify is None else "seconds"


def conclusions(release: Release, plan: PlanSpec, verdict: JudgeVerdict | None) -> dict[str, str]:
    """Return what follows each decision (`selectors.DECISIONS`): the verdict may change while one reads."""
    rules = plan.judge
    sure = {"percent": f"{100 - rules.false_promote_percent:g}"}
    claims = listed(
        _claim(noun_in_sentence(name), indicator)
        for name, indicator in rules.judged.items()
        if indicator.certifies
    )
    return {
        "never": _why_never(release),
        "none": _("Analysis starts with the candidate's first traffic."),
        "insufficient": _why_inconclusive(verdict, sure),
        "promote": _("Enough to be %(percent)s%% sure: %(claims)s.") % {**sure, "claims": claims},
        "roll_back": _why_worse(verdict, rules),
    }


def _why_inconclusive(verdict: JudgeVerdict | None, sure: Mapping[str, str]) -> str:
    suffering = {progress.name for progress in verdict.indicators if progress.in_outage} if verdict else ()
    if "errors" in suffering:
        return _("Both versions fail at present: nothing passes until that is over.")
    if suffering:
        return _("Both versions are slow at present: nothing passes until that is over.")
    return _("Not enough to be %(percent)s%% sure that it is not worse.") % sure


def _claim(what: str, indicator: IndicatorRules) -> str:
    ratio, percent = indicator.promote_below_ratio, indicator.promote_below_percent
    if ratio is not None and percent is not None:
        claim = _("%(what)s below %(ratio)s× stable's or below %(percent)s%%")
    elif ratio is not None:
        claim = _("%(what)s below %(ratio)s× stable's")
    else:
        claim = _("%(what)s below %(percent)s%%")
    return claim % {
        "what": what,
        "ratio": "" if ratio is None else f"{ratio:g}",
        "percent": "" if percent is None else f"{percent:g}",
    }


def _why_never(release: Release) -> str:
    if release.from_version_id is None:
        return _("Nothing to compare with: this is the service's first version.")
    if release.state == ReleaseState.PROMOTED or release.in_motion:
        return _("No canary: the plan switches all traffic at once.")
    return _("The release ended before the candidate got traffic.")


def _why_worse(verdict: JudgeVerdict | None, rules: JudgeRules) -> str:
    if verdict is None or verdict.culprit is None:
        return _("Worse than stable: it is rolled back.")
    ratio = rules.judged[verdict.culprit].roll_back_above_ratio
    noun = noun_of(verdict.culprit)
    if ratio == 1.0:
        return _("%(what)s: worse than stable. It is rolled back.") % {"what": noun}
    return _("%(what)s: more than %(ratio)s× stable's. It is rolled back.") % {
        "what": noun,
        "ratio": f"{ratio:g}",
    }


def threshold_words(threshold: Threshold | None, *, is_always_saturated: bool = False) -> str:
    """Say where the slow threshold is from."""
    if threshold is None and is_always_saturated:
        return str(NO_USABLE_THRESHOLD)
    if threshold is None:
        return _("Not known yet: stable has answered too few requests.")
    words = {
        "duration": formats.duration(threshold.milliseconds / 1000),
        "requests": formats.count(threshold.requests),
    }
    if threshold.source == "plan":
        return _("%(duration)s, the objective of the plan.") % words
    if threshold.source == "person":
        return _("%(duration)s, set by a person for this service.") % words
    if threshold.previous_ms is None or threshold.previous_ms == threshold.milliseconds:
        return (
            _("%(duration)s: of %(requests)s healthy answers of stable, one in twenty took longer.") % words
        )
    words["before"] = formats.duration(threshold.previous_ms / 1000)
    return (
        _("%(duration)s, learnt anew from %(requests)s healthy answers of stable; %(before)s before.") % words
    )


NO_USABLE_THRESHOLD = gettext_lazy(
    "No usable slow threshold: stable was saturated whenever it answered, so its speed says nothing. Slow "
    "requests are not compared; an approver can set a threshold for the service."
)


def threshold_warning(threshold: Threshold | None, *, is_always_saturated: bool = False) -> str:
    """Return a warning; empty unless saturation left no threshold, or stable's speed has jumped."""
    if threshold is None and is_always_saturated:
        return str(NO_USABLE_THRESHOLD)
    if threshold is None or threshold.measured_ms is None or not threshold.is_held:
        return ""
    return _(
        "Stable is much slower than it was: one in twenty answers takes longer than %(measured)s. Slow still "
        "means %(duration)s, until an approver sets another threshold."
    ) % {
        "measured": formats.duration(threshold.measured_ms / 1000),
        "duration": formats.duration(threshold.milliseconds / 1000),
    }


def statistics(
    rules: JudgeRules,
    evidence: JudgeEvidence | None,
    threshold: Threshold | None,
    verdict: JudgeVerdict | None,
    *,
    is_always_saturated: bool = False,
) -> list[tuple[str, str]]:
    """The fold: how the verdict comes about, by topic."""
    told = [
        (
            _("Method"),
            _(
                "Sequential test of the ratio of two rates (e-process). It may be looked at after every "
                "request: looking often does not make it wrong more often."
            ),
        ),
        (
            _("Rolls back"),
            _(
                "At most %(percent)s%% of equally good candidates are rolled back. One correction over all "
                "%(number)s indicators: it decides when the mean of their e-values reaches %(limit)s, or one "
                "alone %(alone)s."
            )
            % {
                "percent": f"{rules.false_roll_back_percent:g}",
                "number": len(rules.judged),
                "limit": f"{math.exp(rules.log_mean_limit):g}",
                "alone": f"{math.exp(rules.log_reject_limit):g}",
            },
        ),
        (
            _("Passes"),
            _("At most %(percent)s%% of worse candidates pass; at least %(requests)s candidate requests.")
            % {
                "percent": f"{rules.false_promote_percent:g}",
                "requests": formats.count(rules.least_requests),
            },
        ),
        (
            _("Rolls back at once"),
            _("When more than %(percent)s%% of the candidate's latest %(requests)s requests are 5xx.")
            % {
                "percent": f"{rules.abort_above_percent:g}",
                "requests": formats.count(rules.guarded_requests),
            },
        ),
        (
            _("Counted"),
            _("Every request by itself: the gateway sends each one to a side by weight, whoever it is from.")
            if rules.requests_per_session == 1
            else _("By session: up to %(number)s requests of one session count as one.")
            % {"number": rules.requests_per_session},
        ),
    ]
    if rules.slow is not None:
        told.append(
            (_("Slow threshold"), threshold_words(threshold, is_always_saturated=is_always_saturated))
        )
    if evidence is not None:
        told.append((_("Observed"), _observed(evidence)))
        mean = math.exp(min(evidence.log_mean(rules), SURE_LOG_E))
        told.append((_("Mean of the e-values"), f"{mean:.3g}"))
        if verdict is not None and verdict.culprit is not None:
            peak = max(evidence.indicators[verdict.culprit].reject_peak, evidence.mean_peak)
            told.append((_("Chance by luck"), _("under %(chance)s") % {"chance": chance(peak)}))
    return told


def _observed(evidence: JudgeEvidence) -> str:
    looks = ngettext("%(number)s look", "%(number)s looks", evidence.looks) % {
        "number": formats.count(evidence.looks)
    }
    words = {"looks": looks, "duration": formats.span(evidence.seconds)}
    if not evidence.interruptions:
        return _("%(looks)s over %(duration)s") % words
    return _("%(looks)s over %(duration)s; %(lost)s left out because the gateway restarted") % {
        **words,
        "lost": formats.count(evidence.interruptions),
    }
