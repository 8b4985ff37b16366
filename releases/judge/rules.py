"""What the judge may decide on what evidence: part of a plan, so frozen and written as JSON.

Rolling back. A good candidate has as many chances to be wronged as there are indicators, those of the service
and latencies by route among them. There is one correction over all of them: the mean of their e-values, which
is an e-value whatever hangs together with what, is compared with 1 / `false_roll_back_percent`. One indicator
alone reaches that when its e-value is as many times the limit as there are indicators (Bonferroni's), where
the limit of its curve is drawn; several that all say the same get there earlier. The culprit that is named is
the indicator with the most evidence.

Sessions. Where the requests of a session stay on one side together, they are no independent answers: the unit
is the session. Nobody counts sessions, so every bet is raised to the power 1 / `requests_per_session` instead
(eprocess.py): a whole bad session counts as one bad answer.

Promoting. Every indicator that has to be certified must be certified, so a bad candidate must fool the judge
on its worst indicator; that has probability at most `false_promote_percent` whatever the others do (an
intersection-union test). Nothing is split.

What certifies errors when nobody errs? A ratio of zeros has no evidence in it. So `errors` is certified by
either of two claims, "below `promote_below_ratio` times stable's" or "below `promote_below_percent`": the
hypothesis to be refuted is that both are false, for which the average of the two e-values is again an
e-value.
"""

import hashlib
import math
from typing import Annotated, ClassVar, Self

from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

IndicatorName = str
"""`errors`, `slow`, `indicator:NAME` of one that the service declares, `latency:ROUTE` of a route."""
DECLARED, LATENCY = "indicator:", "latency:"
MOST_OF_SERVICE = 10
Declared = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Timed = Annotated[str, StringConstraints(pattern=r"^(ttft|tpot|/[^\s,=]{0,199})$")]

Ratio = Annotated[float, Field(ge=1.0, le=100.0, allow_inf_nan=False)]
Percent = Annotated[float, Field(gt=0.0, lt=100.0, allow_inf_nan=False)]


class IndicatorRules(BaseModel):
    """When one kind of bad answer speaks against the candidate, and when it clears it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    has_outages: ClassVar[bool] = True
    """Whether bad answers on both sides at once are an outage, in which nothing passes."""

    roll_back_above_ratio: Ratio = Field(
        default=1.0,
        title=_("Roll back above ratio"),
        description=_(
            "Roll back on evidence that bad answers are more frequent than this many times stable's."
        ),
    )
    roll_back_min_percent: Annotated[float, Field(ge=0.0, lt=100.0, allow_inf_nan=False)] = Field(
        default=0.0,
        title=_("Roll back min (%)"),
        description=_("Never roll back while less than this percentage of its answers are bad."),
    )
    promote_below_ratio: Annotated[float, Field(gt=1.0, le=100.0, allow_inf_nan=False)] | None = Field(
        default=2.0,
        title=_("Promote below ratio"),
        description=_("Pass on evidence that bad answers are less frequent than this many times stable's."),
    )
    promote_below_percent: Percent | None = Field(
        default=None,
        title=_("Promote below (%)"),
        description=_("Or pass on evidence that fewer than this percentage of its answers are bad."),
    )

    @property
    def certifies(self) -> bool:
        """Whether a promotion needs this indicator certified."""
        return self.promote_below_ratio is not None or self.promote_below_percent is not None

    @model_validator(mode="after")
    def _leaves_room_between_the_verdicts(self) -> Self:
        if self.promote_below_ratio is not None and self.promote_below_ratio <= self.roll_back_above_ratio:
            raise ValueError(
                f"promote_below_ratio ({self.promote_below_ratio:g}) must be above "
                f"roll_back_above_ratio ({self.roll_back_above_ratio:g}): one candidate could earn both"
            )
        return self


class DeclaredRules(IndicatorRules):
    """Rules for an indicator that the service declares, which may be frequent on both sides."""

    has_outages: ClassVar[bool] = False


class LatencyRules(IndicatorRules):
    """Rules like `IndicatorRules` for the slow answers of one route."""

    roll_back_above_ratio: Ratio = Field(
        default=1.5, title=_("Roll back above ratio"), description=_("The same as under `slow`.")
    )
    above_ms: Annotated[int, Field(strict=True, ge=1, le=320_000)] | None = Field(
        default=None,
        title=_("Slow above (ms)"),
        description=_("An answer that takes longer is slow. Empty: learnt from stable during the release."),
    )


class JudgeRules(BaseModel):
    """Settings of the judge: how sure it must be, and of what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    errors: IndicatorRules = Field(
        default=IndicatorRules(
            roll_back_above_ratio=1.0,
            roll_back_min_percent=0.1,
            promote_below_ratio=2.0,
            promote_below_percent=1.0,
        ),
        description=_("Answers 500-599."),
    )
    slow: IndicatorRules | None = Field(
        default=IndicatorRules(roll_back_above_ratio=1.5, promote_below_ratio=2.0),
        description=(
            _(
                "Answers slower than `slow_above_ms`, or else than about 95 % of stable's own; null to "
                "ignore latency. One in twenty is frequent enough to pass by."
            )
        ),
    )
    slow_above_ms: Annotated[int, Field(strict=True, ge=1, le=320_000)] | None = Field(
        default=None,
        title=_("Slow above (ms)"),
        description=(
            _(
                "The latency objective: an answer that takes longer is slow. Empty: learnt from stable's own "
                "healthy traffic, and kept for the service."
            )
        ),
    )
    indicators: Annotated[dict[Declared, DeclaredRules], Field(max_length=MOST_OF_SERVICE)] = Field(
        default={},
        description=_(
            "Indicators that the service declares (`app.indicator`), by name: the share of requests in "
            "which one was above 0, or was not where higher is better."
        ),
    )
    latencies: Annotated[dict[Timed, LatencyRules], Field(max_length=MOST_OF_SERVICE)] = Field(
        default={},
        description=_(
            "Latency by route, such as `/detect`, as the workers count it; `ttft` is the time to the first "
            "token, `tpot` that per output token."
        ),
    )
    false_roll_back_percent: Annotated[float, Field(ge=0.01, le=20.0, allow_inf_nan=False)] = Field(
        default=5.0,
        title=_("False rollback (%)"),
        description=_(
            "Highest share of equally good candidates that are rolled back; valid under continuous "
            "monitoring."
        ),
    )
    false_promote_percent: Annotated[float, Field(ge=0.01, le=30.0, allow_inf_nan=False)] = Field(
        default=10.0,
        title=_("False promotion (%)"),
        description=_("Highest share of worse candidates that pass; valid under continuous monitoring."),
    )
    requests_per_session: Annotated[int, Field(strict=True, ge=1, le=1000)] = Field(
        default=1,
        title=_("Requests per session"),
        description=(
            _(
                "How many requests of one session at most stay on one version. 1 where each request is sent "
                "by itself, as Slipway's gateway does; more where something in front of it keeps "
                "sessions on a side."
            )
        ),
    )
    min_requests: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = Field(
        default=100,
        title=_("Min requests"),
        description=_("Candidate requests (sessions, where they stick) below which nothing passes."),
    )
    abort_above_percent: Percent = Field(
        default=50.0,
        title=_("Abort above (%)"),
        description=_("Roll back at once when more than this percentage of the latest answers are errors."),
    )
    abort_min_requests: Annotated[int, Field(strict=True, ge=5, le=10_000)] = Field(
        default=20,
        title=_("Abort min requests"),
        description=_("How many of the candidate's latest requests that guard looks at, at least."),
    )

    @model_validator(mode="after")
    def _can_certify_something(self) -> Self:
        if not any(rules.certifies for rules in self.judged.values()):
            raise ValueError("at least one indicator needs promote_below_ratio or promote_below_percent")
        return self

    @property
    def judged(self) -> dict[IndicatorName, IndicatorRules]:
        """The indicators that are judged, in the order in which they are told."""
        judged: dict[IndicatorName, IndicatorRules] = {"errors": self.errors}
        if self.slow is not None:
            judged["slow"] = self.slow
        judged |= {f"{DECLARED}{name}": rules for name, rules in self.indicators.items()}
        return judged | {f"{LATENCY}{of}": rules for of, rules in self.latencies.items()}

    @property
    def least_requests(self) -> int:
        """Candidate requests below which nothing is certified."""
        return self.min_requests * self.requests_per_session

    @property
    def guarded_requests(self) -> int:
        """The candidate's latest requests that the absolute guard looks at, at least."""
        return self.abort_min_requests * self.requests_per_session

    @property
    def log_reject_limit(self) -> float:
        """Natural log of the e-value at which one indicator alone rolls the candidate back."""
        return self.log_mean_limit + math.log(len(self.judged))

    @property
    def log_mean_limit(self) -> float:
        """Natural log of the mean of all e-values at which the candidate is rolled back."""
        return math.log(100.0 / self.false_roll_back_percent)

    @property
    def log_accept_limit(self) -> float:
        """Natural log of the e-value at which one indicator is certified."""
        return math.log(100.0 / self.false_promote_percent)

    @property
    def fingerprint(self) -> str:
        """Names the bets: evidence gathered under one fingerprint means nothing under another."""
        text = "|".join(
            f"{name}:{rules.roll_back_above_ratio!r},{rules.promote_below_ratio!r},{rules.promote_below_percent!r}"
            for name, rules in self.judged.items()
        )
        if self.requests_per_session != 1:
            text += f"|sessions of {self.requests_per_session}"  # untranslated
        return hashlib.sha256(text.encode()).hexdigest()[:12]
