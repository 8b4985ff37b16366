"""Versions that a hub has brought go on their way by a release; see `models_registry.onward`."""

from collections.abc import Sequence

from accounts.selectors import may
from accounts.services import require
from accounts.states import Right
from common.actor import Actor
from common.errors import Invalid
from models_registry.models import Model, Version
from releases import selectors, services
from releases.errors import UnknownPlan
from releases.models import Service


class ReleaseOnward:
    def services(self, actor: Actor, model: Model) -> Sequence[str]:
        rows = selectors.services_for(actor).filter(model=model).order_by("name")
        return [row.name for row in rows if may(actor, Right.RELEASES_START, row.team_id)]

    def plans(self, actor: Actor, model: Model) -> Sequence[str]:
        teams = {None, *selectors.services_for(actor).filter(model=model).values_list("team_id", flat=True)}
        return sorted({plan.name for plan in selectors.plans_for(actor) if plan.team_id in teams})

    def check(self, actor: Actor, model: Model, *, service: str, plan: str) -> None:
        found = _service(actor, model, service)
        require(actor, Right.RELEASES_START, found.team)
        try:
            if plan:
                selectors.plan_named(plan, team=found.team)
        except UnknownPlan as error:
            raise Invalid(fields={"release_plan": error.fields["plan"]}) from None

    def release(self, actor: Actor, version: Version, *, service: str, plan: str, reason: str) -> str:
        found = _service(actor, version.model, service)
        begun = services.start_release(
            actor=actor, service=found, version=version, plan_name=plan, reason=reason
        )
        return f"release {begun.pk} of {found.name}"


def _service(actor: Actor, model: Model, name: str) -> Service:
    found = selectors.services_for(actor).filter(model=model, name=name).first()
    if found is None:
        sentence = f"There is no service {name[:50]} of {model}, or none that you may see."
        raise Invalid(fields={"release_to": [sentence]})
    return found
