"""The one thing to know about a release's present state, for the top of its page."""

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from common.pages.badges import Tone, badge_of
from common.sentences import joined
from freezes.selectors import ActiveFreeze
from releases.freezing import in_words
from releases.models import Approval, Release
from releases.reconcilers.base import ACTOR
from releases.reconcilers.clock import clock_of
from releases.selectors.releases import WaitingFor
from releases.states import ReleaseState, word_of


@dataclass(frozen=True, slots=True)
class ReleaseNotice:
    tone: Tone
    title: str
    since: datetime | None = None
    text: str = ""
    log: str = ""
    until: datetime | None = None
    """When it ends by itself, and what then."""
    lasts: bool = False
    """It goes on since then: `for 40 s`, not `40 s ago`."""
    url: str = ""
    """Where to read more."""
    follower: int | None = None
    """The release that took its place: `title` reads on with `by #3`."""


def notice_of(
    release: Release,
    waiting: WaitingFor | None,
    word: Approval | None,
    frozen: ActiveFreeze | None = None,
) -> ReleaseNotice | None:
    """Return the notice; None while it simply runs.

    `word`: what was already said on the approval at hand. `frozen`: the freeze that holds it.
    """
    if not release.is_known_here:
        title = _("State: %(state)s") % {"state": word_of(release.state)}
        text = _("A newer release of Slipway wrote it: its processes take this release further.")
        return ReleaseNotice("warn", title, text=text)
    state = ReleaseState(release.state)
    if state == ReleaseState.PROMOTED and release.superseded_by_id is not None:
        drawn = badge_of("release", release.standing)
        follower = release.undone_by_id or release.superseded_by_id
        return ReleaseNotice(drawn.tone, str(drawn.word), None, release.told_end, follower=follower)
    if not release.in_motion:
        drawn = badge_of("release", state)
        return ReleaseNotice(
            drawn.tone, _by(str(drawn.word), release), release.ended_at, str(release.told_outcome)
        )
    if release.halt:
        title = _("Rolling back") if state == ReleaseState.ROLLING_BACK else _("Aborting")
        why = str(release.told_outcome)
        return ReleaseNotice("warn", _by(title, release), release.halted_at, why, release.last_error)
    if release.paused_at is not None:
        return ReleaseNotice(
            "warn",
            _("Paused by %(name)s") % {"name": release.paused_by},
            release.paused_at,
            joined((_pause_reason(release), _("A candidate that turns bad is still rolled back."))),
        )
    if frozen is not None:
        return ReleaseNotice("warn", _("Frozen"), None, in_words(frozen), url="/releases/freezes/")
    if release.disturbed_at is not None:
        held = release.disturbance
        title = _("Held: %(machine)s leaves service") % {"machine": held.get("machine", "")}
        text = _("%(why)s. The analysis pauses until its workers are ready again.") % {
            "why": held.get("why", "")
        }
        since = datetime.fromisoformat(held["since"]) if "since" in held else release.disturbed_at
        return ReleaseNotice("warn", title, since, text, lasts=True, url=held.get("url", ""))
    if waiting is not None and waiting.kind == "approval":
        if word is not None:
            return ReleaseNotice(
                "good", _("Approved by %(name)s; continuing") % {"name": word.by}, word.at, word.reason
            )
        stalled = _stalled(release)
        return ReleaseNotice(
            "ask",
            _("Waiting for approval"),
            waiting.since,
            stalled.text if stalled else "",
            lasts=True,
            until=waiting.until,
        )
    if release.failed_since is not None and release.stuck_at is None:
        return ReleaseNotice("warn", _("Waiting"), release.failed_since, release.last_error, lasts=True)
    return _stalled(release)


def _pause_reason(release: Release) -> str:
    """Return the reason of the latest pause."""
    move = release.moves.filter(after=ReleaseState.PAUSED).order_by("-pk").first()
    return str(move.told) if move is not None and move.actor == ACTOR.name else ""


def _stalled(release: Release) -> ReleaseNotice | None:
    """Why the clock of its step stands; None while it runs."""
    clock = clock_of(release)
    if clock is None or not clock.why:
        return None
    title = _("The clock of this step is stopped")
    return ReleaseNotice(
        "warn", title, datetime.fromisoformat(clock.stalled_since), str(clock.why), lasts=True
    )


def _by(title: str, release: Release) -> str:
    if not release.halted_by:
        return title
    if release.halted_by == ACTOR.name:
        return _("%(state)s automatically") % {"state": title}
    return _("%(state)s by %(name)s") % {"state": title, "name": release.halted_by}
