"""The one thing to know about a release's present state, for the top of its page."""

from dataclasses import dataclass
from datetime import datetime

from common.pages.looks import Tone, look
from releases.models import Approval, Release
from releases.reconcilers.base import ACTOR
from releases.selectors import WaitingFor
from releases.states import ReleaseState


@dataclass(frozen=True, slots=True)
class Notice:
    tone: Tone
    title: str
    since: datetime | None = None
    text: str = ""
    log: str = ""
    until: datetime | None = None
    """When it ends by itself, and what then."""
    lasts: bool = False
    """It goes on since then: `for 40 s`, not `40 s ago`."""


def notice_of(release: Release, waiting: WaitingFor | None, word: Approval | None) -> Notice | None:
    """None while it simply runs. `word`: what was already said on the approval at hand."""
    state = ReleaseState(release.state)
    if state == ReleaseState.STUCK:
        return Notice(
            "bad",
            f"Stuck after {release.attempts} attempts: nothing moves until a person looks.",
            release.stuck_at,
            "Remove the cause below, then try again; or abort, which returns all traffic to stable.",
            release.last_error,
        )
    if not release.in_motion:
        drawn = look("release", state)
        return Notice(drawn.tone, f"{drawn.word}{_by(release)}", release.ended_at, release.outcome)
    if release.halt:
        title = f"{'Rolling back' if state == ReleaseState.ROLLING_BACK else 'Giving up'}{_by(release)}"
        return Notice("warn", title, release.halted_at, release.outcome, release.last_error)
    if release.last_error and release.attempts:
        text = "Slipway tries again by itself; after some attempts it stops and asks for a person."
        return Notice("warn", f"Attempt {release.attempts} failed.", None, text, release.last_error)
    if release.paused_at is not None:
        text = "The judge keeps watching, and rolls back when that is due."
        return Notice("warn", f"Paused by {release.paused_by}", release.paused_at, text)
    if waiting is not None and waiting.kind == "approval":
        if word is not None:
            return Notice("good", f"Approved by {word.by}: going on.", word.at, word.reason)
        return Notice("ask", "Waits for a person's word", waiting.since, lasts=True, until=waiting.until)
    return None


def _by(release: Release) -> str:
    if not release.halted_by:
        return ""
    return " by itself" if release.halted_by == ACTOR.name else f" by {release.halted_by}"
