"""Named reads of releases."""

from collections.abc import Sequence

from django.db.models import QuerySet

from accounts.models import Team
from accounts.selectors import teams_where
from accounts.states import Right
from common.actor import Actor
from releases import plans
from releases.errors import UnknownPlan
from releases.models import Plan, Release, Service
from releases.states import IN_MOTION, ReleaseState


def plan_named(name: str, *, team: Team) -> plans.Plan:
    """The team's own plan of that name, or the built-in one. Raises UnknownPlan."""
    own = Plan.objects.filter(team=team, name=name).first()
    if own is not None:
        return plans.parse(own.body)
    if name in plans.BUILT_IN:
        return plans.BUILT_IN[name]
    names = sorted({*plans.BUILT_IN, *Plan.objects.filter(team=team).values_list("name", flat=True)})
    raise UnknownPlan(fields={"plan": [f"There is no plan '{name}'. There are: {', '.join(names)}."]})


def plan_of(release: Release) -> plans.Plan:
    """The plan that the release started with, whatever became of its name since."""
    return plans.parse(release.plan)


def releases_for(actor: Actor) -> QuerySet[Release]:
    return Release.objects.for_actor(actor).select_related("service", "team", "version__model", "from_version__model")


def in_motion(actor: Actor) -> QuerySet[Release]:
    return releases_for(actor).filter(state__in=IN_MOTION).order_by("-created_at")


def waiting_for(actor: Actor) -> QuerySet[Release]:
    """Releases that wait for this actor: approvals it may give, and stuck ones it may resume."""
    approvals = in_motion(actor).filter(
        state=ReleaseState.WAITING_APPROVAL, halt="", team__in=teams_where(actor, Right.RELEASES_APPROVE)
    )
    stuck = in_motion(actor).filter(
        state=ReleaseState.STUCK, team__in=teams_where(actor, Right.RELEASES_OPERATE)
    )
    return approvals | stuck


def release_of(service: Service) -> Release | None:
    """The one in motion."""
    return Release.objects.filter(service=service, state__in=IN_MOTION).select_related("version__model").first()


def history(service: Service, *, limit: int = 50) -> Sequence[Release]:
    return (
        Release.objects.filter(service=service)
        .select_related("version__model", "from_version__model")
        .order_by("-created_at")[:limit]
    )
