"""Versions that a hub has brought go on their way by a release; see `hubs.auto_release`."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from accounts.selectors import may
from accounts.services.rights import require
from accounts.states import Right
from common.actor import Actor
from common.errors import Invalid
from models_registry.models import Model, Version
from releases.errors import NotPossibleNow, UnknownPlan
from releases.models import Service
from releases.policy import shortfalls
from releases.selectors.plans import plan_named, plans_for, policy_of
from releases.selectors.services import services_for
from releases.services.release import start_release


class ReleaseAutomation:
    def services(self, actor: Actor, model: Model) -> Sequence[str]:
        rows = services_for(actor).filter(model=model).order_by("name")
        return [row.name for row in rows if may(actor, Right.RELEASES_START, row.team_id, service=row.name)]

    def plans(self, actor: Actor, model: Model) -> Sequence[str]:
        teams = {None, *services_for(actor).filter(model=model).values_list("team_id", flat=True)}
        return sorted({plan.name for plan in plans_for(actor) if plan.team_id in teams})

    def check(self, actor: Actor, model: Model, *, service: str, plan: str) -> None:
        found = _service(actor, model, service)
        require(actor, Right.RELEASES_START, found.team)
        if not plan:
            return
        try:
            missing = shortfalls(plan_named(plan, team=found.team), policy_of(found))
        except UnknownPlan as error:
            raise Invalid(fields={"release_plan": error.fields["plan"]}) from None
        if missing:
            # Nobody is there to say why, each time, so nobody may let it pass.
            told = " ".join(str(term) for term in missing)
            names = {"service": service, "shortfalls": told}
            sentence = _("It falls short of what %(service)s demands. %(shortfalls)s") % names
            raise Invalid(fields={"release_plan": [sentence]})

    def release(self, actor: Actor, version: Version, *, service: str, plan: str, reason: str) -> str:
        found = _service(actor, version.model, service)
        if found.automation_paused_by:
            paused = _("%(person)s rolled %(service)s back: resume its automatic releases first.")
            raise NotPossibleNow(paused % {"person": found.automation_paused_by, "service": service})
        begun = start_release(actor=actor, service=found, version=version, plan_name=plan, reason=reason)
        return f"release {begun.pk} of {found.name}"  # untranslated


def _service(actor: Actor, model: Model, name: str) -> Service:
    found = services_for(actor).filter(model=model, name=name).first()
    if found is None:
        sentence = _("There is no service %(service)s of %(model)s, or none that you may see.")
        sentence %= {"service": name[:50], "model": model}
        raise Invalid(fields={"release_to": [sentence]})
    return found
