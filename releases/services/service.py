from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services import require
from accounts.states import Right
from clusters.models import Cluster
from common import audit, events
from common.actor import Actor
from images.models import RuntimeImage
from models_registry.models import Model, Version
from releases import plans, selectors
from releases.engine_settings import resource_faults, setting_faults
from releases.errors import InvalidService
from releases.events import ServiceChanged
from releases.models import Service
from releases.services.release import begin, image_fault
from serving.protocol import ENGINES


def create_service(
    *,
    actor: Actor,
    team: Team,
    name: str,
    model: Model,
    version: Version,
    cluster: Cluster,
    engine: str = "transformers",
    replicas: int = 1,
    slots: int = 4,
    device: str = "auto",
    description: str = "",
    alias: str = "",
    resources: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    plan_name: str = "canary",
    image: RuntimeImage | None = None,
) -> Service:
    """Create the service and start the release that brings `version` up as its first.

    Raises NotAllowed, InvalidService (with faults per field), NotReleasable, UnknownPlan.
    """
    require(actor, Right.SERVICES_WRITE, team)
    selectors.plan_named(plan_name, team=team)
    service = Service(
        team=team,
        name=name,
        description=description,
        model=model,
        alias=alias,
        cluster=cluster,
        engine=engine,
        replicas=replicas,
        slots=slots,
        device=device,
        resources=dict(resources or {}),
        settings=dict(settings or {}),
        plan_name=plan_name,
        image=image,
        created_by=actor.name,
    )
    _check(service)
    with transaction.atomic():
        service.save(force_insert=True)
        begin(
            service,
            version=version,
            plan_name=plans.DIRECT.name,
            actor=actor,
            reason="The service's first version.",
        )
        audit.record(
            actor,
            "service.create",
            subject=service,
            team_id=team.pk,
            detail={
                "model": model.name,
                "version": str(version),
                "cluster": cluster.name,
                "replicas": replicas,
            },
        )
    return service


def change_service(
    service: Service, *, actor: Actor, expected_revision: int | None = None, **changes: Any
) -> Service:
    """Change what the next release of the service will use; workers that run now stay as they are.

    Raises NotAllowed, InvalidService, UnknownPlan, common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, service.team)
    allowed = {
        "description",
        "alias",
        "engine",
        "replicas",
        "slots",
        "device",
        "resources",
        "settings",
        "plan_name",
        "image",
    }
    fixed = sorted(set(changes) - allowed)
    if fixed:
        raise InvalidService(fields={name: ["Cannot be changed after creation."] for name in fixed})
    if "plan_name" in changes:
        selectors.plan_named(changes["plan_name"], team=service.team)
    for name, value in changes.items():
        setattr(service, name, value)
    _check(service)
    with transaction.atomic():
        service.change(expected=expected_revision, **changes)
        detail = changes | ({"image": str(changes["image"] or "")} if "image" in changes else {})
        audit.record(actor, "service.change", subject=service, team_id=service.team_id, detail=detail)
        events.publish(ServiceChanged(service.pk))
    return service


def _check(service: Service) -> None:
    """Raises InvalidService with all that is wrong, by field."""
    faults: dict[str, list[str]] = {}
    if service.engine not in ENGINES:
        told = {"engine": service.engine, "known": ", ".join(ENGINES)}
        faults["engine"] = [_("There is no '%(engine)s'; use %(known)s.") % told]
    elif wrong := setting_faults(service.engine, service.settings):
        faults["settings"] = wrong
    if wrong := resource_faults(service.resources):
        faults["resources"] = wrong
    if service.image is not None and (
        fault := image_fault(service.image, engine=service.engine, team=service.team)
    ):
        faults["image"] = [fault]
    try:
        service.full_clean(validate_constraints=True)
    except ValidationError as error:
        faults = {**error.message_dict, **faults}
    if faults:
        raise InvalidService(fields=faults)
