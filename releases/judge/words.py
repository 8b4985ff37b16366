"""The judge's reasons, numbers first: the kinds of sentences, and which of them a verdict has."""

import math
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext, gettext_noop, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from common.sentences import listed
from releases.judge.evidence import BadRequestCount, IndicatorEvidence, JudgeEvidence
from releases.judge.progress import IndicatorProgress, seconds_for
from releases.judge.rules import DECLARED, LATENCY, IndicatorName, JudgeRules
from releases.messages import MessageTemplate, ReleaseMessage, count, number

NOUNS: Mapping[str, str] = {"errors": gettext_noop("5xx"), "slow": gettext_noop("slow requests")}
"""By the name of the indicator."""
SURE_LOG_E = 100.0
"""Beyond it all evidence reads the same."""


def chance(log_e: float) -> str:
    """Ville's bound 1 / e-value, rounded up: "2.5 %", "1 in 10,000"."""
    bound = math.exp(-log_e)
    if bound < 1e-9:
        return gettext("1 in a billion")
    if bound < 1e-3:
        return gettext("1 in %(number)s") % {"number": f"{10 ** math.floor(log_e / math.log(10)):,}"}
    # Less a hair, so that exactly 1 / 40 is told as 2.5 % and not, by its last digit, as 2.6 %.
    return f"{math.ceil(1000 * bound - 1e-9) / 10:g} %"


def _share(tally: Sequence[int]) -> str:
    """`[31, 402]`: `31 / 402 (7.7 %)`"""
    bad, requests = tally
    return f"{bad:,} / {requests:,} ({_percent(bad / requests if requests else 0.0)})"


def _percent(share: float) -> str:
    percent = 100 * share
    if not percent:
        return "0 %"
    return f"{percent:.1f} %" if percent >= 0.05 else f"{percent:.1g} %"


def noun_of(name: IndicatorName) -> str:
    """`5xx`, `Slow requests`, `refused`, `Slow /detect`"""
    if name == "errors":
        return gettext("5xx")
    if name == "slow":
        return gettext("Slow requests")
    if name.startswith(LATENCY):
        return gettext("Slow %(what)s") % {"what": timed(name)}
    return name.removeprefix(DECLARED)


def noun_in_sentence(name: IndicatorName) -> str:
    """`5xx`, `slow requests`, `refused`, `slow /detect`"""
    if name.startswith(DECLARED):
        return name.removeprefix(DECLARED)
    if name.startswith(LATENCY):
        return gettext("slow %(what)s") % {"what": timed(name)}
    return gettext(NOUNS[name])


def timed(name: IndicatorName) -> str:
    """`/detect`, `TTFT`: what an indicator of latency times."""
    of = name.removeprefix(LATENCY)
    return of if of.startswith("/") else of.upper()


def _claims(claims: Sequence[tuple[str, float | None, float | None]]) -> str:
    """`[["errors", 2.0, 1.0]]`: the indicator, below what ratio to stable's or what percentage it is."""
    return listed(_claim(*claim) for claim in claims)


def _claim(name: str, ratio: float | None, percent: float | None) -> str:
    if ratio is None:
        claim = gettext("%(what)s below %(percent)s %%")
    elif percent is None:
        claim = gettext("%(what)s below %(ratio)s times stable's")
    else:
        claim = gettext("%(what)s below %(ratio)s times stable's or below %(percent)s %%")
    return claim % {
        "what": noun_in_sentence(name),
        "ratio": "" if ratio is None else f"{ratio:g}",
        "percent": "" if percent is None else f"{percent:g}",
    }


def _missing(shares: Sequence[tuple[str, int]]) -> str:
    """`[["errors", 40]]`: the indicator and how much of the evidence it needs is there, in percent."""
    return listed(
        gettext("%(what)s %(percent)s %%") % {"what": noun_in_sentence(name), "percent": percent}
        for name, percent in shares
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return gettext("%(number)s s") % {"number": max(math.ceil(seconds), 1)}
    if seconds < 5400:
        return gettext("%(number)s min") % {"number": math.ceil(seconds / 60)}
    return gettext("%(number)s h") % {"number": f"{math.ceil(seconds / 3600):,}"}


_SIDES = {"candidate": _share, "stable": _share}
ERRORS = MessageTemplate("analysis.errors", _("Candidate 5xx: %(candidate)s; stable %(stable)s."), **_SIDES)
ERRORS_LATELY = MessageTemplate(
    "analysis.errors_lately", _("Candidate 5xx of the latest: %(candidate)s; stable %(stable)s."), **_SIDES
)
SLOW = MessageTemplate("analysis.slow", _("Candidate slow: %(candidate)s; stable %(stable)s."), **_SIDES)
SLOWER = MessageTemplate(
    "analysis.slower",
    _("Candidate slower than %(threshold)s ms: %(candidate)s; stable %(stable)s."),
    threshold=number,
    **_SIDES,
)
OF_SERVICE = MessageTemplate(
    "analysis.of_service",
    _("Candidate %(what)s: %(candidate)s; stable %(stable)s."),
    what=noun_in_sentence,
    **_SIDES,
)
UNCOUNTED = MessageTemplate(
    "analysis.uncounted",
    _("There are no counts of %(what)s for both versions yet, so it cannot be compared."),
    what=noun_in_sentence,
)
LATELY = MessageTemplate(
    "analysis.lately",
    _("Of the candidate's latest %(requests)s requests: %(bad)s."),
    requests=count,
    bad=count,
)
ABORTED = MessageTemplate(
    "analysis.aborted", _("Rolled back at once, as more than %(limit)s %% failed."), limit=number
)
UNEQUAL = MessageTemplate(
    "analysis.unequal",
    _("Rolled back: p < %(chance)s if the candidate's rate were equal to stable's."),
    chance=chance,
)
ABOVE_RATIO = MessageTemplate(
    "analysis.above_ratio",
    _("Rolled back: p < %(chance)s if the candidate's rate were at most %(ratio)s times stable's."),
    ratio=number,
    chance=chance,
)
TOGETHER = MessageTemplate(
    "analysis.together",
    _(
        "Rolled back: p < %(chance)s if none of the %(indicators)s indicators were above its limit "
        "(mean of their e-values)."
    ),
    indicators=count,
    chance=chance,
)
PASSED = MessageTemplate(
    "analysis.passed",
    _("Passed: %(claims)s; the chance of passing a worse candidate is under %(limit)s %%."),
    claims=_claims,
    limit=number,
)
DOUBT = MessageTemplate(
    "analysis.doubt",
    _("Passed earlier, but there is now %(percent)s %% of the evidence that a rollback needs: inconclusive."),
    percent=count,
)
OUTAGE = MessageTemplate(
    "analysis.outage", _("Passed earlier, but both versions fail now: inconclusive until that is over.")
)
SLOW_BOTH = MessageTemplate(
    "analysis.slow_both",
    _(
        "Slow requests: candidate %(candidate)s %%, stable %(stable)s %%. Stable is slow itself, which hides "
        "what the candidate does: inconclusive until that is over."
    ),
    candidate=number,
    stable=number,
)
NOTHING_YET = MessageTemplate(
    "analysis.nothing_yet", _("Inconclusive: the candidate has answered no request yet.")
)
AFTER = MessageTemplate(
    "analysis.after",
    ngettext_lazy(
        "Inconclusive after %(requests)s candidate request; evidence so far, of what passing needs: "
        "%(missing)s.",
        "Inconclusive after %(requests)s candidate requests; evidence so far, of what passing needs: "
        "%(missing)s.",
        "requests",
    ),
    requests=count,
    missing=_missing,
)
TOO_FEW = MessageTemplate(
    "analysis.too_few",
    ngettext_lazy(
        "Inconclusive after %(requests)s candidate request; at least %(least)s are required.",
        "Inconclusive after %(requests)s candidate requests; at least %(least)s are required.",
        "requests",
    ),
    requests=count,
    least=count,
)
NO_STABLE = MessageTemplate(
    "analysis.no_stable", _("Stable answers no requests, so there is nothing to compare with.")
)
NO_THRESHOLD = MessageTemplate(
    "analysis.no_threshold", _("Stable has answered too few requests to know its usual latency.")
)
NEVER = MessageTemplate("analysis.never", _("At these rates no number of requests would do."))
TOO_RARE = MessageTemplate(
    "analysis.too_rare",
    _("At these rates no number of requests would do: %(what)s are too rare on both sides to be compared."),
    what=noun_in_sentence,
)
MORE = MessageTemplate(
    "analysis.more",
    ngettext_lazy(
        "About %(requests)s more request if it is as good as stable.",
        "About %(requests)s more requests if it is as good as stable.",
        "requests",
    ),
    requests=count,
)
MORE_WITHIN = MessageTemplate(
    "analysis.more_within",
    ngettext_lazy(
        "About %(requests)s more request (%(duration)s at the present rate) if it is as good as stable.",
        "About %(requests)s more requests (%(duration)s at the present rate) if it is as good as stable.",
        "requests",
    ),
    requests=count,
    duration=_duration,
)


def abort_reason(evidence: JudgeEvidence, rules: JudgeRules) -> ReleaseMessage:
    return _lately(evidence) + ABORTED(limit=rules.abort_above_percent)


def roll_back_reason(name: IndicatorName, evidence: JudgeEvidence, rules: JudgeRules) -> ReleaseMessage:
    part = evidence.indicators[name]
    ratio = rules.judged[name].roll_back_above_ratio
    lately = part.lately.sides.candidate
    found = _comparison(name, part, evidence)
    if lately.share > 2 * part.totals.candidate.share:
        found += LATELY(requests=lately.requests, bad=lately.bad)
    log_e = min(part.reject_peak, SURE_LOG_E)
    return found + (UNEQUAL(chance=log_e) if ratio == 1.0 else ABOVE_RATIO(ratio=ratio, chance=log_e))


def roll_back_together_reason(
    name: IndicatorName, evidence: JudgeEvidence, rules: JudgeRules
) -> ReleaseMessage:
    """Begin with the indicator that has the most evidence."""
    found = _comparison(name, evidence.indicators[name], evidence)
    for other, part in evidence.indicators.items():
        if other != name and part.log_reject > 0:
            found += _comparison(other, part, evidence)
    log_e = min(evidence.mean_peak, SURE_LOG_E)
    return found + TOGETHER(indicators=len(rules.judged), chance=log_e)


def promote_reason(evidence: JudgeEvidence, rules: JudgeRules) -> ReleaseMessage:
    found = ReleaseMessage()
    for name, part in evidence.indicators.items():
        found += _comparison(name, part, evidence)
    claims = [
        [name, indicator.promote_below_ratio, indicator.promote_below_percent]
        for name, indicator in rules.judged.items()
        if indicator.certifies
    ]
    return found + PASSED(claims=claims, limit=rules.false_promote_percent)


def doubt_reason(progress: IndicatorProgress, evidence: JudgeEvidence) -> ReleaseMessage:
    comparison = _comparison(progress.name, evidence.indicators[progress.name], evidence)
    return comparison + DOUBT(percent=_whole_percent(progress.reject_progress))


def slowness_reason(name: IndicatorName, evidence: JudgeEvidence) -> ReleaseMessage:
    lately = evidence.indicators[name].lately.sides
    return SLOW_BOTH(candidate=round(100 * lately.candidate.share), stable=round(100 * lately.stable.share))


def outage_reason(evidence: JudgeEvidence) -> ReleaseMessage:
    return _lately(evidence) + OUTAGE()


def insufficient_reason(
    evidence: JudgeEvidence, rules: JudgeRules, told: Sequence[IndicatorProgress], *, requests: int | None
) -> ReleaseMessage:
    seen = evidence.indicators["errors"].totals.candidate.requests
    if not seen:
        return NOTHING_YET()
    missing = [[one.name, _whole_percent(one.accept_progress)] for one in told if not one.certified]
    so_far = (
        AFTER(requests=seen, missing=missing)
        if missing
        else TOO_FEW(requests=seen, least=rules.least_requests)
    )
    return so_far + _outlook(evidence, rules, told, requests=requests)


def _outlook(
    evidence: JudgeEvidence, rules: JudgeRules, told: Sequence[IndicatorProgress], *, requests: int | None
) -> ReleaseMessage:
    """When there will be enough evidence, or why there never will."""
    if not evidence.indicators["errors"].totals.stable.requests:
        return NO_STABLE()
    if rules.slow is not None and evidence.slow_threshold_ms is None:
        return NO_THRESHOLD()
    if requests is None:
        never = next(progress for progress in told if progress.requests_to_certify is None)
        is_of_service = never.name.startswith((DECLARED, LATENCY))
        if is_of_service and not (never.candidate.requests and never.stable.requests):
            return UNCOUNTED(what=never.name)
        too_rare = not (never.candidate.bad or never.stable.bad)
        return TOO_RARE(what=never.name) if too_rare else NEVER()
    seconds = seconds_for(evidence, requests)
    if seconds is None:
        return MORE(requests=requests)
    return MORE_WITHIN(requests=requests, duration=seconds)


def _comparison(name: IndicatorName, part: IndicatorEvidence, evidence: JudgeEvidence) -> ReleaseMessage:
    threshold = evidence.slow_threshold_ms
    sides = {"candidate": _bad_of(part.totals.candidate), "stable": _bad_of(part.totals.stable)}
    if name == "errors":
        return ERRORS(**sides)
    if name.startswith((DECLARED, LATENCY)):
        return OF_SERVICE(what=name, **sides)
    return SLOW(**sides) if threshold is None else SLOWER(threshold=threshold, **sides)


def _lately(evidence: JudgeEvidence) -> ReleaseMessage:
    lately = evidence.indicators["errors"].lately.sides
    return ERRORS_LATELY(candidate=_bad_of(lately.candidate), stable=_bad_of(lately.stable))


def _bad_of(tally: BadRequestCount) -> list[int]:
    return [tally.bad, tally.requests]


def _whole_percent(share: float) -> int:
    return math.floor(100 * share)
