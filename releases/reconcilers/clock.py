"""The clock of a step that gathers evidence: it runs only while both versions are measured and ready.

A hold of five minutes means five minutes of the candidate's answers beside stable's. Time without counts,
without a look at the workers or without a ready worker on either side shows nothing of the candidate.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clusters.selectors import Readiness
from releases.judge.evidence import EvidenceIncrement
from releases.messages import Document, MessageTemplate, ReleaseMessage, nested, text
from releases.models import Release

LONGEST_STRETCH = timedelta(seconds=60)
"""Between two readings of the counters: over a longer one nobody knows how either side was."""
UNSEEN_AFTER = timedelta(seconds=15)
"""The workers are looked at every 2.5 s."""
LONGEST_STALL = timedelta(hours=1)


def _side(name: str) -> str:
    return gettext("The candidate") if name == "candidate" else gettext("The stable version")


NOT_READY = MessageTemplate(
    "clock.not_ready", _("%(side)s has no ready worker: %(why)s"), side=_side, why=text
)
UNSEEN = MessageTemplate("clock.unseen", _("%(side)s: its workers cannot be observed."), side=_side)
UNCOUNTED = MessageTemplate("clock.uncounted", _("The requests cannot be counted: %(why)s"), why=text)
FEW_REQUESTS = MessageTemplate(
    "clock.few_requests",
    _(
        "Too few requests to judge: candidate %(candidate)s, stable %(stable)s of %(least)s each. Resume "
        "continues without them."
    ),
    candidate=str,
    stable=str,
    least=str,
)
STALLED = MessageTemplate(
    "clock.stalled", _("The step could not continue for %(minutes)s min. %(why)s"), minutes=str, why=nested
)


@dataclass(frozen=True, slots=True)
class StepClock:
    """Clock of one step, kept in the release's `baseline`."""

    step: int
    seconds: float = 0.0
    """How long it has run."""
    candidate: int = 0
    """Requests answered in that time."""
    stable: int = 0
    is_steady: bool = False
    """Nothing has stopped it since the last reading of the counters."""
    stalled_since: str = ""
    stalled_at: str = ""
    """The latest look at which it stood."""
    is_waived: bool = False
    """A person has resumed the release without the requests that it lacked."""
    reason: Document | None = None
    """Why it stands; None while it runs."""

    @classmethod
    def of(cls, release: Release) -> Self:
        kept = release.baseline.get("clock")
        return cls(**kept) if kept and kept["step"] == release.step_index else cls(release.step_index)

    @property
    def why(self) -> ReleaseMessage:
        return ReleaseMessage.kept("", self.reason)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def after(self, increment: EvidenceIncrement | None, *, stall: ReleaseMessage, at: datetime) -> Self:
        """Return the clock after one more look.

        `increment`: what both sides answered since the last reading; None: no reading.
        `stall`: why the clock stands."""
        if stall:
            since = self.stalled_since or at.isoformat()
            return replace(
                self,
                is_steady=False,
                stalled_since=since,
                stalled_at=at.isoformat(),
                reason=stall.document,
            )
        running = replace(self, stalled_since="", reason=None)
        if increment is None:
            return running
        is_counted = not increment.interrupted and increment.seconds <= LONGEST_STRETCH.total_seconds()
        if not (self.is_steady and is_counted):
            return replace(running, is_steady=True)
        sides = increment.indicators["errors"]
        return replace(
            running,
            seconds=self.seconds + increment.seconds,
            candidate=self.candidate + sides.candidate.requests,
            stable=self.stable + sides.stable.requests,
        )

    def stalled_for(self, now: datetime) -> timedelta:
        """Return how long it has stood in one piece."""
        if not self.stalled_since:
            return timedelta(0)
        return now - datetime.fromisoformat(self.stalled_since)

    def steady_for(self, now: datetime) -> timedelta | None:
        """Return the time since it last stood; None: it never has."""
        return now - datetime.fromisoformat(self.stalled_at) if self.stalled_at else None


def clock_of(release: Release) -> StepClock | None:
    """Return the clock of the step at hand; None where nothing is timed, or nothing was seen of it yet."""
    clock = release.baseline.get("clock")
    is_present = clock is not None and clock["step"] == release.step_index
    return StepClock.of(release) if release.in_motion and not release.halt and is_present else None


def unready(sides: Mapping[str, Readiness], now: datetime) -> ReleaseMessage:
    """Why what the versions answer shows nothing of them now; empty: each has a ready worker.

    `sides`: `candidate`, and `stable` where there is one.
    """
    for name, side in sides.items():
        if side.observed_at is None or now - side.observed_at > UNSEEN_AFTER:
            return UNSEEN(side=name) + ReleaseMessage(words=side.reason)
        if not side.ready:
            return NOT_READY(side=name, why=side.reason or side.state)
    return ReleaseMessage()
