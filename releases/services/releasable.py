"""Whether a version can be released to a service, and by the plan."""

from django.utils.translation import gettext as _

from accounts.models import Team
from clusters import selectors as fleet
from gateway import selectors as gateway
from images.models import RuntimeImage
from models_registry.models import Version
from models_registry.selectors import versions
from models_registry.states import VersionState
from releases.declared import not_declared
from releases.errors import NotReleasable
from releases.models import Release, Service, ServiceIndicator
from releases.plans.builtin import DIRECT
from releases.plans.plan import PlanSpec
from releases.services.changes import differs_from_stable
from releases.services.pods import uncounted


def check_possible(service: Service, version: Version, plan: PlanSpec, *, undoes: Release | None) -> None:
    """Raises NotReleasable where the gateway or the workers cannot do what the plan asks."""
    if undoes is None and (lacks := gateway.lacks(service.cluster_id)):
        raise NotReleasable(lacks)
    unable = gateway.cannot(service.cluster_id)
    for number, step in enumerate(plan.steps, start=1):
        why = unable.get(step.needs, "") if service.stable_version_id is not None else ""
        if why := why or step.lacks(service):
            words = _("Step %(number)s of the plan (%(step)s) cannot be done here: %(why)s")
            raise NotReleasable(words % {"number": number, "step": step.spoken(), "why": why})
    if service.stable_version is not None and undoes is None:
        versions = (version, service.stable_version)
        rows = ServiceIndicator.objects.filter(service=service, name__in=plan.judge.indicators)
        names = frozenset(rows.values_list("name", flat=True))
        why = uncounted(service, plan) or not_declared(
            plan.judge, engine=service.engine, versions=versions, of_service=names
        )
        if why:
            raise NotReleasable(why)
    if service.stable_version_id is None:
        _refuse_comparing(plan)


def _refuse_comparing(plan: PlanSpec) -> None:
    """Raises NotReleasable."""
    for number, step in enumerate(plan.steps, start=1):
        if step.compares:
            words = _(
                "No version serves yet that step %(number)s of the plan (%(step)s) could be compared with: "
                "take the plan %(plan)s."
            )
            raise NotReleasable(words % {"number": number, "step": step.spoken(), "plan": DIRECT})


def check_releasable(service: Service, version: Version, *, image: RuntimeImage | None) -> None:
    if version.model_id != service.model_id:
        raise NotReleasable(
            _("%(version)s is not a version of %(model)s, which %(service)s serves.")
            % {"version": version, "model": service.model, "service": service.name}
        )
    if version.state != VersionState.READY:
        raise NotReleasable(
            _("%(version)s is %(state)s: only a ready version can be released.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    if damages := versions.damages(version):
        raise NotReleasable(
            _(
                "%(version)s is damaged: %(damages)s of its stored files are broken or missing. It "
                "can be released when they are repaired, or imported anew."
            )
            % {"version": version, "damages": len(damages)}
        )
    if service.stable_version_id == version.pk and not differs_from_stable(service, image=image):
        raise NotReleasable(
            _("%(version)s already serves all traffic of %(service)s, with these settings.")
            % {"version": version, "service": service.name}
        )


def image_fault(image: RuntimeImage, *, engine: str, team: Team) -> str:
    """Why a service of the team with this engine cannot name the image; empty if it can."""
    if image.team_id not in (None, team.pk):
        return _("Image %(image)s belongs to another team than %(team)s.") % {
            "image": image,
            "team": team.name,
        }
    return (
        ""
        if image.engine == engine
        else _("Image %(image)s is of %(engine)s, not of %(engine_2)s.")
        % {"image": image, "engine": image.engine, "engine_2": engine}
    )


def image_before(release: Release, service: Service) -> RuntimeImage | None:
    """Return the image that served before it; None if it cannot be named any more."""
    image = fleet.image_of(release.stable_deployment)
    return image if image and not image_fault(image, engine=service.engine, team=service.team) else None
