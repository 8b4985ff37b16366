"""The judge's reasons, numbers first: whole sentences in the language of the moment.

What is kept of them in a row is written by a process that speaks English (see `releases.stored`).
"""

import math
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from common.sentences import joined, listed
from releases.judge.evidence import Evidence, IndicatorEvidence, Tally
from releases.judge.progress import IndicatorProgress, seconds_for
from releases.judge.rules import IndicatorName, IndicatorRules, JudgeRules

ERRORS = gettext_noop("Candidate 5xx: %(candidate)s; stable %(stable)s.")
ERRORS_LATELY = gettext_noop("Candidate 5xx of the latest: %(candidate)s; stable %(stable)s.")
SLOW = gettext_noop("Candidate slow: %(candidate)s; stable %(stable)s.")
SLOWER = gettext_noop("Candidate slower than %(threshold)s ms: %(candidate)s; stable %(stable)s.")
LATELY = gettext_noop("Of the candidate's latest %(requests)s requests: %(bad)s.")
ABORTED = gettext_noop("Rolled back at once, as more than %(limit)s %% failed.")
UNEQUAL = gettext_noop(
    "Rolled back: the chance of this if the candidate's rate were equal is under %(chance)s."
)
ABOVE_RATIO = gettext_noop(
    "Rolled back: the chance of this if the candidate's rate were at most %(ratio)s times stable's is under "
    "%(chance)s."
)
PASSED = gettext_noop("Passed: %(claims)s; the chance of passing a worse candidate is under %(limit)s %%.")
DOUBT = gettext_noop(
    "Passed earlier, but there is now %(percent)s %% of the evidence that a rollback needs: inconclusive."
)
OUTAGE = gettext_noop("Passed earlier, but both versions fail now: inconclusive until that is over.")
NOTHING_YET = gettext_noop("Inconclusive: the candidate has answered no request yet.")
AFTER_ONE = gettext_noop(
    "Inconclusive after %(requests)s candidate request; evidence so far, of what passing needs: %(missing)s."
)
AFTER = gettext_noop(
    "Inconclusive after %(requests)s candidate requests; evidence so far, of what passing needs: %(missing)s."
)
TOO_FEW_ONE = gettext_noop(
    "Inconclusive after %(requests)s candidate request; at least %(least)s are required."
)
TOO_FEW = gettext_noop("Inconclusive after %(requests)s candidate requests; at least %(least)s are required.")
NO_STABLE = gettext_noop("Stable answers no requests, so there is nothing to compare with.")
NO_THRESHOLD = gettext_noop("Stable has answered too few requests to know its usual latency.")
NEVER = gettext_noop("At these rates no number of requests would do.")
TOO_RARE = gettext_noop(
    "At these rates no number of requests would do: %(what)s are too rare on both sides to be compared."
)
ONE_MORE = gettext_noop("About %(requests)s more request if it is as good as stable.")
MORE = gettext_noop("About %(requests)s more requests if it is as good as stable.")
ONE_MORE_WITHIN = gettext_noop(
    "About %(requests)s more request (%(duration)s at the present rate) if it is as good as stable."
)
MORE_WITHIN = gettext_noop(
    "About %(requests)s more requests (%(duration)s at the present rate) if it is as good as stable."
)
SENTENCES = (
    *(ERRORS, ERRORS_LATELY, SLOW, SLOWER, LATELY, ABORTED, UNEQUAL, ABOVE_RATIO, PASSED, DOUBT, OUTAGE),
    *(NOTHING_YET, AFTER_ONE, AFTER, TOO_FEW_ONE, TOO_FEW, NO_STABLE, NO_THRESHOLD, NEVER, TOO_RARE),
    *(ONE_MORE, MORE, ONE_MORE_WITHIN, MORE_WITHIN),
)
"""All that a reason is made of."""
CLAIM_PERCENT = gettext_noop("%(what)s below %(percent)s %%")
CLAIM_RATIO = gettext_noop("%(what)s below %(ratio)s times stable's")
CLAIM_EITHER = gettext_noop("%(what)s below %(ratio)s times stable's or below %(percent)s %%")
MISSING = gettext_noop("%(what)s %(percent)s %%")
IN_A_BILLION = gettext_noop("1 in a billion")
IN = gettext_noop("1 in %(number)s")
NOUNS: Mapping[IndicatorName, str] = {"errors": gettext_noop("5xx"), "slow": gettext_noop("slow requests")}
PHRASES = (CLAIM_EITHER, CLAIM_PERCENT, CLAIM_RATIO, MISSING, IN_A_BILLION, IN, *NOUNS.values())
"""What stands in the sentences in words."""


def abort_reason(evidence: Evidence, rules: JudgeRules) -> str:
    return joined((_lately(evidence), _(ABORTED) % {"limit": f"{rules.abort_above_percent:g}"}))


def roll_back_reason(name: IndicatorName, evidence: Evidence, rules: JudgeRules) -> str:
    part = evidence.indicators[name]
    ratio = rules.indicators[name].roll_back_above_ratio
    lately = part.lately.sides.candidate
    late = ""
    if lately.share > 2 * part.totals.candidate.share:
        late = _(LATELY) % {"requests": f"{lately.requests:,}", "bad": f"{lately.bad:,}"}
    why = UNEQUAL if ratio == 1.0 else ABOVE_RATIO
    told = _(why) % {"ratio": f"{ratio:g}", "chance": chance(part.reject_peak)}
    return joined((_comparison(name, part, evidence), late, told))


def promote_reason(evidence: Evidence, rules: JudgeRules) -> str:
    comparisons = [_comparison(name, part, evidence) for name, part in evidence.indicators.items()]
    claims = [_claim(name, indicator) for name, indicator in rules.indicators.items() if indicator.certifies]
    passed = _(PASSED) % {"claims": listed(claims), "limit": f"{rules.false_promote_percent:g}"}
    return joined((*comparisons, passed))


def doubt_reason(progress: IndicatorProgress, evidence: Evidence) -> str:
    doubt = _(DOUBT) % {"percent": _whole_percent(progress.reject_progress)}
    return joined((_comparison(progress.name, evidence.indicators[progress.name], evidence), doubt))


def outage_reason(evidence: Evidence) -> str:
    return joined((_lately(evidence), _(OUTAGE)))


def insufficient_reason(
    evidence: Evidence, rules: JudgeRules, told: Sequence[IndicatorProgress], *, requests: int | None
) -> str:
    seen = evidence.indicators["errors"].totals.candidate.requests
    if not seen:
        return _(NOTHING_YET)
    missing = [
        _(MISSING) % {"what": _(NOUNS[one.name]), "percent": _whole_percent(one.accept_progress)}
        for one in told
        if not one.certified
    ]
    one, several = (AFTER_ONE, AFTER) if missing else (TOO_FEW_ONE, TOO_FEW)
    figures = {"requests": f"{seen:,}", "missing": listed(missing), "least": f"{rules.least_requests:,}"}
    so_far = _(one if seen == 1 else several) % figures
    return joined((so_far, _outlook(evidence, rules, told, requests=requests)))


def _outlook(
    evidence: Evidence, rules: JudgeRules, told: Sequence[IndicatorProgress], *, requests: int | None
) -> str:
    """When there will be enough evidence, or why there never will."""
    if not evidence.indicators["errors"].totals.stable.requests:
        return _(NO_STABLE)
    if rules.slow is not None and evidence.slow_threshold_ms is None:
        return _(NO_THRESHOLD)
    if requests is None:
        never = next(progress for progress in told if progress.requests_to_certify is None)
        too_rare = not (never.candidate.bad or never.stable.bad)
        return _(TOO_RARE) % {"what": _(NOUNS[never.name])} if too_rare else _(NEVER)
    seconds = seconds_for(evidence, requests)
    if seconds is None:
        return _(ONE_MORE if requests == 1 else MORE) % {"requests": f"{requests:,}"}
    more = ONE_MORE_WITHIN if requests == 1 else MORE_WITHIN
    return _(more) % {"requests": f"{requests:,}", "duration": _duration(seconds)}


def chance(log_e: float) -> str:
    """Ville's bound 1 / e-value, rounded up: "2.5 %", "1 in 10,000"."""
    bound = math.exp(-log_e)
    if bound < 1e-9:
        return _(IN_A_BILLION)
    if bound < 1e-3:
        return _(IN) % {"number": f"{10 ** math.floor(log_e / math.log(10)):,}"}
    # Less a hair, so that exactly 1 / 40 is told as 2.5 % and not, by its last digit, as 2.6 %.
    return f"{math.ceil(1000 * bound - 1e-9) / 10:g} %"


def _claim(name: IndicatorName, indicator: IndicatorRules) -> str:
    ratio, percent = indicator.promote_below_ratio, indicator.promote_below_percent
    claim = CLAIM_PERCENT if ratio is None else CLAIM_RATIO if percent is None else CLAIM_EITHER
    return _(claim) % {
        "what": _(NOUNS[name]),
        "ratio": "" if ratio is None else f"{ratio:g}",
        "percent": "" if percent is None else f"{percent:g}",
    }


def _comparison(name: IndicatorName, part: IndicatorEvidence, evidence: Evidence) -> str:
    threshold = evidence.slow_threshold_ms
    sentence = ERRORS if name == "errors" else SLOW if threshold is None else SLOWER
    return _(sentence) % {
        "threshold": "" if threshold is None else f"{threshold:g}",
        "candidate": _bad_of(part.totals.candidate),
        "stable": _bad_of(part.totals.stable),
    }


def _lately(evidence: Evidence) -> str:
    lately = evidence.indicators["errors"].lately.sides
    return _(ERRORS_LATELY) % {"candidate": _bad_of(lately.candidate), "stable": _bad_of(lately.stable)}


def _bad_of(tally: Tally) -> str:
    return f"{tally.bad:,} / {tally.requests:,} ({_percent(tally.share)})"


def _percent(share: float) -> str:
    percent = 100 * share
    if not percent:
        return "0 %"
    return f"{percent:.1f} %" if percent >= 0.05 else f"{percent:.1g} %"


def _whole_percent(share: float) -> int:
    return math.floor(100 * share)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return _("%(number)s s") % {"number": max(math.ceil(seconds), 1)}
    if seconds < 5400:
        return _("%(number)s min") % {"number": math.ceil(seconds / 60)}
    return _("%(number)s h") % {"number": f"{math.ceil(seconds / 3600):,}"}
