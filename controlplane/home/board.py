"""The Home page. Every section is read when the template asks for it, so a part costs only itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from django.utils.translation import ngettext

from accounts.selectors import may
from accounts.states import Right
from clusters import selectors as fleet
from clusters.fleet import Fleet, NodeNow
from clusters.states import NodeState
from common.actor import Actor
from common.pages.steps import StepView
from common.sentences import listed
from controlplane.home.inbox import Task, inbox
from controlplane.home.parts import Parts, parts_now
from models_registry.models import Model, Version
from releases import selectors as releases
from releases.judge import Verdict
from releases.models import Release, Service
from releases.pages.strip import strip_of

IN_MOTION_SHOWN = 12
TROUBLE_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Moving:
    release: Release
    strip: Sequence[StepView]
    verdict: Verdict | None
    observed_percent: float | None

    @property
    def step(self) -> StepView | None:
        """The one at hand."""
        return next((step for step in self.strip if step.is_current), None)


class HomePage:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def inbox(self) -> list[Task]:
        return inbox(self._actor)

    @cached_property
    def motion(self) -> list[Moving]:
        rows = releases.in_motion(self._actor).prefetch_related("steps")[:IN_MOTION_SHOWN]
        return [
            Moving(
                release,
                strip_of(release, releases.plan_of(release), list(release.steps.all())),
                releases.verdict_of(release),
                releases.weights(release)["observed"]["candidate"],
            )
            for release in rows
        ]

    @cached_property
    def fleet(self) -> Fleet:
        return fleet.fleet(self._actor)

    @cached_property
    def nodes_in_trouble(self) -> list[dict[str, Any]]:
        """Machines that cannot be reached, or with workers that are lost or stuck."""
        nodes = ((cluster, node) for cluster in self.fleet.clusters for node in cluster.nodes)
        found = (
            {"cluster": cluster.row.name, "node": node.row, "words": words}
            for cluster, node in nodes
            if (words := _trouble(node))
        )
        return list(islice(found, TROUBLE_SHOWN))

    @cached_property
    def parts(self) -> Parts:
        return parts_now()

    @cached_property
    def next_step(self) -> str:
        """What somebody who begins should do: `model`, `version`, `service`, `release`; empty: nothing."""
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


def _trouble(node: NodeNow) -> str:
    words = []
    if node.row.state != "ready":
        words.append(NodeState(node.row.state).label.lower())
    if node.load.lost:
        words.append(
            ngettext("%(count)s worker lost", "%(count)s workers lost", node.load.lost)
            % {"count": node.load.lost}
        )
    if node.load.stuck:
        words.append(
            ngettext("%(count)s worker stuck", "%(count)s workers stuck", node.load.stuck)
            % {"count": node.load.stuck}
        )
    return listed(words)
