"""What this person may do with this release now, and what will happen then, in words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.pages import formats
from common.pages.badges import Tone
from freezes.selectors import ActiveFreeze
from releases import bake
from releases.approving import ApprovalCount, decided_already, in_whose_place, may_decide, refusal
from releases.judge.threshold import Threshold
from releases.models import Release
from releases.plans.plan import PlanSpec
from releases.states import ReleaseState

CANCEL = gettext_lazy("Cancel")
Reason = Literal["required", "optional", "none"]

KEYS = {"approve": "a", "reject": "r", "pause": "p", "resume": "p", "abort": "x", "rollback": "b"}
"""What presses the button of an action."""


@dataclass(frozen=True, slots=True)
class ReleaseAction:
    """A button with its question; the fields are those of the `confirm` component."""

    release_id: int
    name: str
    label: str
    icon: str
    tone: Tone | Literal["plain"]
    title: str
    says: str
    confirm: str
    cancel: Any = CANCEL
    consequences: tuple[str, ...] = ()
    placeholder: str = ""
    reason: Reason = "required"

    @property
    def url(self) -> str:
        return f"/releases/{self.release_id}/{self.name}/"

    @property
    def key(self) -> str:
        return KEYS.get(self.name, "")

    @property
    def id(self) -> str:
        return f"ask-{self.name}-{self.release_id}"


def decisions(
    release: Release, plan: PlanSpec, actor: Actor, count: ApprovalCount | None
) -> list[ReleaseAction]:
    """Approve and reject, while the release waits for a word that this person has the right to say.

    `count`: where the approval at hand stands; None: it waits for none.
    """
    if count is None or not may_decide(release, actor, count):
        return []
    absent = in_whose_place(release, actor, count)
    if decided_already(actor, absent, count):
        return []
    reject = ReleaseAction(
        release.pk,
        "reject",
        _("Reject"),
        "thumb-down",
        "bad",
        title=_("Reject %(version)s?") % {"version": release.version},
        says=_way_back(release),
        confirm=_("Reject"),
        placeholder=_("Reason"),
    )
    may_say_yes = refusal(release, actor, absent, count.rules) is None
    return [*([_approve(release, plan, count.missing - 1)] if may_say_yes else []), reject]


def kept_from_approving(release: Release, actor: Actor, count: ApprovalCount) -> str:
    """Return why this person may not approve; empty: they may."""
    if not may_decide(release, actor, count):
        return _("You don't have permission to approve it.")
    absent = in_whose_place(release, actor, count)
    return decided_already(actor, absent, count) or str(refusal(release, actor, absent, count.rules) or "")


def operations(
    release: Release, actor: Actor, *, is_serving: bool, frozen: ActiveFreeze | None = None
) -> list[ReleaseAction]:
    """Pause, resume, override a freeze, abort, roll back, end the bake.

    `is_serving`: what serves came by this release. `frozen`: the freeze that holds it.
    """
    if not release.is_known_here:
        return []
    found = list(_overriding(release, actor)) if frozen else []
    if may(actor, Right.RELEASES_OPERATE, release.team):
        found += _operations(release, is_serving=is_serving, is_frozen=frozen is not None)
    return found


def _overriding(release: Release, actor: Actor) -> Iterator[ReleaseAction]:
    if release.halt:
        return
    if may(actor, Right.RELEASES_OVERRIDE, release.team, service=release.service.name):
        yield ReleaseAction(
            release.pk,
            "override",
            _("Override the freeze"),
            "snowflake-off",
            "bad",
            title=_("Continue in spite of the freeze?"),
            says=_("Its plan continues. It is recorded in the audit log and sent to webhooks."),
            confirm=_("Override the freeze"),
            placeholder=_("Reason"),
        )


def _operations(release: Release, *, is_serving: bool, is_frozen: bool) -> Iterator[ReleaseAction]:
    state = ReleaseState(release.state)
    # What is stuck is retried as every other row is.
    is_stuck = state == ReleaseState.STUCK
    if release.halt and not is_stuck:
        return
    if not is_stuck and (release.paused_at is not None or (state == ReleaseState.PAUSED and not is_frozen)):
        yield ReleaseAction(
            release.pk,
            "resume",
            _("Resume"),
            "player-play",
            "good",
            title=_("Resume the release?"),
            says=_("The plan continues from the step where it was paused."),
            confirm=_("Resume"),
            reason="optional",
        )
    elif release.in_motion and not is_stuck and not is_frozen:
        yield ReleaseAction(
            release.pk,
            "pause",
            _("Pause"),
            "player-pause",
            "plain",
            title=_("Pause the release?"),
            says=_(
                "It stays at this step, with %(percent)s%% of the traffic on the candidate. Analysis goes "
                "on: a candidate that turns bad is still rolled back."
            )
            % {"percent": release.candidate_percent},
            confirm=_("Pause"),
            reason="optional",
        )
    if release.in_motion and not release.halt:
        yield ReleaseAction(
            release.pk,
            "abort",
            _("Abort"),
            "player-stop",
            "bad",
            title=_("Abort release %(number)s?") % {"number": release.pk},
            says=_way_back(release),
            confirm=_("Abort"),
            placeholder=_("Reason"),
        )
    if state == ReleaseState.PROMOTED and is_serving and release.from_version is not None:
        yield ReleaseAction(
            release.pk,
            "rollback",
            _("Roll back"),
            "arrow-back-up",
            "bad",
            title=_("Roll %(service)s back to %(version)s?")
            % {"service": release.service, "version": release.from_version},
            says=_("A new release brings that version back: no canary, no approval."),
            confirm=_("Roll back"),
            consequences=_rollback_consequences(release, bake.way_back(release)),
            placeholder=_("Reason"),
        )
    if release.bake_until is not None:
        yield ReleaseAction(
            release.pk,
            "end-bake",
            _("End bake now"),
            "player-stop",
            "plain",
            title=_("Stop the workers that are kept warm?"),
            says=_("The workers of %(version)s stop, and a rollback must start new ones first.")
            % {"version": release.from_version},
            confirm=_("End bake now"),
            reason="optional",
        )


def _rollback_consequences(release: Release, way: bake.RollbackEstimate) -> tuple[str, ...]:
    names = {"before": release.from_version, "after": release.version, "workers": way.warm_workers}
    drained = _("Then the workers of %(after)s are drained.") % names
    if way.warm_workers:
        words = ngettext(
            "All traffic goes to the %(workers)s worker of %(before)s that is kept warm, within seconds.",
            "All traffic goes to the %(workers)s workers of %(before)s that are kept warm, within seconds.",
            way.warm_workers,
        )
        return (words % names, drained)
    if way.seconds is None:
        start = _("Workers of %(before)s start and are smoke-tested; duration unknown.") % names
    else:
        took = {**names, "duration": formats.duration(way.seconds)}
        start = _("Workers of %(before)s start and are smoke-tested: about %(duration)s.") % took
    return (start, _("All traffic goes to them.") % names, drained)


def threshold(release: Release, found: Threshold | None, actor: Actor) -> list[ReleaseAction]:
    """Accept that stable is slower than it was, where that has to be accepted."""
    if found is None or found.measured_ms is None or not may(actor, Right.RELEASES_APPROVE, release.team):
        return []
    duration = formats.duration(found.measured_ms / 1000)
    return [
        ReleaseAction(
            release.pk,
            "slow-threshold",
            _("Accept %(duration)s") % {"duration": duration},
            "check",
            "plain",
            title=_("Call answers slow only above %(duration)s?") % {"duration": duration},
            says=_("From the next release of %(service)s on; this one goes on as it began.")
            % {"service": release.service},
            confirm=_("Accept"),
            placeholder=_("Reason"),
        )
    ]


def _approve(release: Release, plan: PlanSpec, others: int) -> ReleaseAction:
    says = _("The release continues with its plan:")
    if others > 0:
        says = ngettext(
            "%(people)s more person must approve after you. Then:",
            "%(people)s more people must approve after you. Then:",
            others,
        ) % {"people": others}
    return ReleaseAction(
        release.pk,
        "approve",
        _("Approve"),
        "check",
        "good",
        title=_("Approve %(version)s for %(service)s?")
        % {"version": release.version, "service": release.service},
        says=says,
        confirm=_("Approve"),
        consequences=if_approved(release, plan),
        placeholder=_("Reason for approval"),
    )


def if_approved(release: Release, plan: PlanSpec) -> tuple[str, ...]:
    """Say what follows from yes, a sentence each."""
    rest = plan.steps[release.step_index + 1 :]
    return tuple(words for step in rest for words in step.consequences(release))


def if_rejected(release: Release) -> str:
    """Say what follows from no."""
    return _way_back(release)


def _way_back(release: Release) -> str:
    if release.from_version is None:
        return _("The candidate's workers stop. The service has no other version: it will not answer.")
    return _(
        "All traffic returns to %(before)s within two seconds. Then the workers of %(version)s stop."
    ) % {"before": release.from_version, "version": release.version}
