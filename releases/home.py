"""Active releases on Home, or what somebody who begins should do next."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.pages.steps import StepView
from freezes.models import Freeze
from freezes.selectors import stops_for
from models_registry.models import Model, Version
from releases.judge.verdict import JudgeVerdict
from releases.models import Release, Service
from releases.pages.strip import strip_of
from releases.selectors.plans import plan_of
from releases.selectors.releases import in_motion, verdict_of, weights

ACTIVE_SHOWN = 12


@dataclass(frozen=True, slots=True)
class ActiveRelease:
    release: Release
    strip: Sequence[StepView]
    verdict: JudgeVerdict | None
    observed_percent: float | None

    @property
    def step(self) -> StepView | None:
        """The one at hand."""
        return next((step for step in self.strip if step.is_current), None)


class ReleasesCard:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def active(self) -> list[ActiveRelease]:
        rows = in_motion(self._actor).prefetch_related("steps")[:ACTIVE_SHOWN]
        return [
            ActiveRelease(
                release,
                strip_of(release, plan_of(release), list(release.steps.all())),
                verdict_of(release),
                weights(release)["observed"]["candidate"],
            )
            for release in rows
        ]

    @cached_property
    def stops(self) -> list[Freeze]:
        return stops_for(self._actor)

    @cached_property
    def next_step(self) -> str:
        """Name the next step of a beginner: `model`, `version`, `service`, `release`; empty: nothing."""
        if Release.objects.for_actor(self._actor).exists():
            return ""
        if Service.objects.for_actor(self._actor).exists():
            return "release"
        if Version.objects.for_actor(self._actor).ready().exists():
            return "service"
        return "version" if Model.objects.for_actor(self._actor).live().exists() else "model"

    @cached_property
    def may_write(self) -> bool:
        return may(self._actor, Right.SERVICES_WRITE)
