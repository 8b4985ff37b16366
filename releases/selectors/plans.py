"""Named reads of plans, and of the policies that they have to meet."""

from collections import defaultdict
from typing import Any

from django.db.models import Count, QuerySet
from django.utils.translation import gettext as _

from accounts.models import Team
from common.actor import Actor
from releases.errors import UnknownPlan
from releases.models import Plan, Release, Service, TeamPolicy
from releases.plans import plan as plans
from releases.plans.builtin import DIRECT, builtin_plans
from releases.plans.later import stored_plan
from releases.plans.plan import plan_hash
from releases.plans.words import strip
from releases.policy import NOTHING, PolicyTerm, ReleasePolicy, demanded_by, stricter


def plan_named(name: str, *, team: Team) -> plans.PlanSpec:
    """The team's own plan of that name, or the built-in one. Raises UnknownPlan."""
    own = Plan.objects.filter(team=team, name=name).first()
    if own is not None:
        return stored_plan(own.body)
    builtin = builtin_plans()
    if name in builtin:
        return builtin[name]
    names = sorted({*builtin, *Plan.objects.filter(team=team).values_list("name", flat=True)})
    raise UnknownPlan(
        fields={
            "plan": [
                _("There is no plan '%(name)s'. There are: %(names)s.")
                % {"name": name, "names": ", ".join(names)}
            ]
        }
    )


def usual_plan_of(service: Service) -> str:
    """The name of the plan that its next release goes by unless somebody names one: the first version that
    serves has nothing to be compared with."""
    return service.plan_name if service.stable_version_id is not None else DIRECT


def policy_of_team(team: Team | int) -> ReleasePolicy:
    body = TeamPolicy.objects.filter(team=team).values_list("body", flat=True).first()
    return NOTHING if body is None else ReleasePolicy.model_validate(body)


def teams_with_services(actor: Actor) -> QuerySet[Team]:
    """Return plans that the actor may see and that release something."""
    owners = Service.objects.for_actor(actor).values("team")
    return Team.objects.filter(pk__in=owners).order_by("name")


def policy_of(service: Service) -> ReleasePolicy:
    """Return the policy of a release of the service: what its team, itself and its plan demand."""
    own = ReleasePolicy.model_validate(service.policy) if service.policy else NOTHING
    named = own if service.policy_replaces_team else stricter(policy_of_team(service.team_id), own)
    try:
        return stricter(named, demanded_by(plan_named(service.plan_name, team=service.team)))
    except UnknownPlan:
        return named


def policy_at_start(release: Release) -> ReleasePolicy:
    """Return the policy that was demanded of the release, whatever is demanded since."""
    return ReleasePolicy.model_validate(release.policy) if release.policy else NOTHING


def shortfalls_of(release: Release) -> list[PolicyTerm]:
    """Return the terms that its plan lacked, and that were let pass."""
    return [PolicyTerm.from_dict(one) for one in release.shortfalls]


def is_named_by_policy(plan_name: str, *, team: Team) -> bool:
    """Whether a policy of the team, or of one of its services, allows the plan by its name."""
    named = policy_of_team(team).plans or ()
    own = Service.objects.filter(team=team, policy__isnull=False).values_list("policy", flat=True)
    return plan_name in named or any(plan_name in (body["plans"] or ()) for body in own if body)


def plan_of(release: Release) -> plans.PlanSpec:
    """The plan that the release started with, whatever became of its name since."""
    known = _parsed.get(release.plan_hash)
    if known is None or known[0] != release.plan:
        if len(_parsed) >= MOST_PARSED:
            _parsed.clear()
        known = _parsed[release.plan_hash] = (release.plan, stored_plan(release.plan))
    return known[1]


MOST_PARSED = 500
_parsed: dict[str, tuple[Any, plans.PlanSpec]] = {}
"""Plans by hash, with the document that each was read from: a look a second need not read it again."""


def plans_for(actor: Actor) -> list[Plan]:
    """The built-in plans as rows without a team and without an id, then those of the actor's teams."""
    built_in = [
        Plan(
            name=plan.name,
            description=plan.description,
            body=plan.model_dump(mode="json"),
            hash=plan_hash(plan),
            changed_by="",
        )
        for plan in builtin_plans().values()
    ]
    return [*built_in, *Plan.objects.for_actor(actor).select_related("team").order_by("name")]


def summary(plan: Plan) -> list[str]:
    return [cell.label for cell in strip(stored_plan(plan.body))]


def uses_of_plans(actor: Actor) -> dict[tuple[int | None, str], int]:
    """Count the services that name a plan, by team id and name; under None those of all teams."""
    found: dict[tuple[int | None, str], int] = defaultdict(int)
    rows = Service.objects.for_actor(actor).values_list("team_id", "plan_name").annotate(number=Count("pk"))
    for team_id, name, number in rows.order_by():
        found[team_id, name] += number
        found[None, name] += number
    return dict(found)
