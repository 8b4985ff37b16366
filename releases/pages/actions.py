"""What this person may do with this release now, and what will happen then, in words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.pages.looks import Tone
from releases import plans
from releases.models import Release
from releases.states import ReleaseState

Reason = Literal["required", "optional", "none"]

KEYS = {"approve": "a", "reject": "r", "pause": "p", "resume": "p", "abort": "x", "rollback": "b"}
"""What presses the button of an action."""


@dataclass(frozen=True, slots=True)
class Action:
    """One button with its question; the fields are those of the `confirm` component."""

    release_id: int
    name: str
    label: str
    icon: str
    tone: Tone | Literal["plain"]
    title: str
    says: str
    confirm: str
    cancel: str = "Cancel"
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


def decisions(release: Release, plan: plans.Plan, actor: Actor) -> list[Action]:
    """Approve and reject, while the release waits for a word that this person has the right to say."""
    if release.state != ReleaseState.WAITING_APPROVAL or release.halt:
        return []
    if not may_decide(release, plan, actor):
        return []
    reject = Action(
        release.pk,
        "reject",
        "Reject",
        "thumb-down",
        "bad",
        title=f"Reject {release.version}?",
        says=_way_back(release),
        confirm="Reject it",
        placeholder="What speaks against it?",
    )
    return [*([] if must_be_another(release, plan, actor) else [_approve(release, plan)]), reject]


def may_decide(release: Release, plan: plans.Plan, actor: Actor) -> bool:
    """Whether the person has the rights that the approval step at hand asks for."""
    step = plan.steps[release.step_index]
    if not may(actor, Right.RELEASES_APPROVE, release.team):
        return False
    needs_admin = isinstance(step, plans.Approval) and step.role == "admin"
    return not needs_admin or may(actor, Right.PEOPLE_ADMIN, release.team)


def must_be_another(release: Release, plan: plans.Plan, actor: Actor) -> bool:
    """Whether the plan keeps this person, who asked for the release, from approving it."""
    step = plan.steps[release.step_index]
    separate = isinstance(step, plans.Approval) and step.separate_requester
    return separate and release.requested_by_id is not None and release.requested_by_id == actor.user_id


def operations(release: Release, actor: Actor, *, is_serving: bool) -> list[Action]:
    """Pause, resume, abort, roll back. `is_serving`: the service's stable version came by this release."""
    if not may(actor, Right.RELEASES_OPERATE, release.team):
        return []
    return list(_operations(release, is_serving=is_serving))


def _operations(release: Release, *, is_serving: bool) -> Iterator[Action]:
    state = ReleaseState(release.state)
    if state == ReleaseState.STUCK:
        yield Action(
            release.pk,
            "resume",
            "Try again",
            "refresh",
            "good",
            title="Try again?",
            says="Slipway takes up the step again where it stands; what was done already is not done twice.",
            confirm="Try again",
            reason="optional",
            placeholder="What has changed?",
        )
    elif release.halt:
        return
    elif release.paused_at is not None or state == ReleaseState.PAUSED:
        yield Action(
            release.pk,
            "resume",
            "Resume",
            "player-play",
            "good",
            title="Resume the release?",
            says="The plan goes on from the step where it was paused.",
            confirm="Resume",
            reason="optional",
        )
    elif release.in_motion:
        yield Action(
            release.pk,
            "pause",
            "Pause",
            "player-pause",
            "plain",
            title="Pause the release?",
            says=f"It stays at this step, with {release.candidate_percent}% of the traffic on the candidate. "
            "The judge keeps watching, and rolls back when that is due.",
            confirm="Pause",
            reason="optional",
        )
    if release.in_motion and not release.halt:
        yield Action(
            release.pk,
            "abort",
            "Abort",
            "player-stop",
            "bad",
            title=f"Abort release {release.pk}?",
            says=_way_back(release),
            confirm="Abort release",
            cancel="Keep it running",
            placeholder="What did you see?",
        )
    if state == ReleaseState.PROMOTED and is_serving and release.from_version is not None:
        yield Action(
            release.pk,
            "rollback",
            "Roll back",
            "arrow-back-up",
            "bad",
            title=f"Roll {release.service} back to {release.from_version}?",
            says="A new release brings the version before back, by the plan direct: no canary, no approval.",
            confirm="Roll back",
            cancel=f"Keep {release.version.name}",
            consequences=(
                f"Workers of {release.from_version} start and are smoke-tested.",
                f"All traffic goes to them, then the workers of {release.version} are drained.",
            ),
            placeholder=f"What is wrong with {release.version.name}?",
        )


def _approve(release: Release, plan: plans.Plan) -> Action:
    rest = plan.steps[release.step_index + 1 :]
    consequences = [_told(step, release) for step in rest]
    if release.service.alias and any(isinstance(step, plans.Promote) for step in rest):
        consequences.append(f"The alias {release.service.alias} moves to {release.version}.")
    return Action(
        release.pk,
        "approve",
        "Approve",
        "check",
        "good",
        title=f"Approve {release.version} for {release.service}?",
        says="The release goes on with its plan:",
        confirm="Approve",
        consequences=tuple(consequences),
        placeholder="What convinced you?",
    )


def _told(step: plans.Step, release: Release) -> str:
    match step:
        case plans.Promote():
            before = f"; the workers of {release.from_version} are drained" if release.from_version else ""
            return f"All traffic goes to {release.version}{before}."
        case plans.Weight(percent=percent):
            return f"{percent}% of the traffic goes to {release.version}."
        case plans.Hold(seconds=seconds):
            return f"It stays so for {plans.duration(seconds)}."
        case _:
            words = plans.summary(step)
            return f"{words[0].upper()}{words[1:]}."


def _way_back(release: Release) -> str:
    if release.from_version is None:
        return "The candidate's workers stop. The service has no other version: it will not answer."
    return (
        f"All traffic returns to {release.from_version} within two seconds. "
        f"Then the workers of {release.version} stop."
    )
