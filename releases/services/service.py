from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters.candidates import candidates
from clusters.choosing import ClusterRequirements, choose, with_resource
from clusters.engine_settings import setting_faults
from clusters.models import Cluster
from common import audit, events
from common.actor import Actor
from common.sentences import joined
from gateway import selectors as gateway
from images.models import RuntimeImage
from models_registry.models import Model, Version
from releases.errors import InvalidService, UnknownPlan
from releases.events import ServiceChanged
from releases.models import Service
from releases.plans.builtin import DIRECT, builtin_plan
from releases.policy import PolicyTerm, lowered, shortfalls
from releases.selectors.plans import plan_named, policy_of
from releases.services.pods import check_pods
from releases.services.policy import may_lower, parse_policy, record_lowering
from releases.services.releasable import image_fault
from releases.services.release import begin
from serving.engines.registry import SERVED_ENGINES


def create_service(
    *,
    actor: Actor,
    team: Team,
    name: str,
    model: Model,
    version: Version,
    cluster: Cluster | None = None,
    cluster_rule: ClusterRequirements | None = None,
    engine: str = "transformers",
    replicas: int = 1,
    slots: int = 4,
    device: str = "auto",
    description: str = "",
    alias: str = "",
    resources: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    plan_name: str = "canary",
    image: RuntimeImage | None = None,
) -> Service:
    """Create the service and start the release that brings `version` up as its first.

    `cluster_rule`: where no cluster is named, it picks one, once and for all; the row keeps why.
    Raises NotAllowed, InvalidService (with faults per field), NotReleasable, UnknownPlan.
    """
    require(actor, Right.SERVICES_WRITE, team)
    plan_named(plan_name, team=team)
    choice: list[dict[str, Any]] = []
    if cluster is None:
        cluster_rule = cluster_rule or ClusterRequirements()
        cluster_rule = with_resource(cluster_rule, (resources or {}).get("gpu_resource"))
        cluster, choice = _chosen(cluster_rule, team=team)
    service = Service(
        team=team,
        name=name,
        description=description,
        model=model,
        alias=alias,
        cluster=cluster,
        cluster_rule=cluster_rule.to_dict() if cluster_rule is not None else None,
        cluster_choice=choice,
        engine=engine,
        replicas=replicas,
        slots=slots,
        device=device,
        resources=dict(resources or {}),
        pod=dict(pod or {}),
        settings=dict(settings or {}),
        plan_name=plan_name,
        image=image,
        created_by=actor.name,
    )
    _check(service)
    _check_plan(service, field="plan_name")
    if gateway.has_ability(name):
        taken = _("An ability has the address /%(name)s/. Choose another name.")
        raise InvalidService(fields={"name": [taken % {"name": name}]})
    with transaction.atomic():
        service.save(force_insert=True)
        begin(
            service,
            version=version,
            plan=builtin_plan(DIRECT),
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


def _chosen(rule: ClusterRequirements, *, team: Team) -> tuple[Cluster, list[dict[str, Any]]]:
    """Raises InvalidService saying of each cluster why not."""
    choice = choose(candidates(team), rule, now=timezone.now())
    if not choice.cluster:
        said = [f"{one.cluster}: {one.says}" for one in choice.considered]
        raise InvalidService(fields={"cluster_rule": [_("No cluster fits."), *said]})
    return Cluster.objects.present().get(name=choice.cluster), choice.to_list()


def change_service(
    service: Service,
    *,
    actor: Actor,
    expected_revision: int | None = None,
    reason: str = "",
    **changes: Any,
) -> Service:
    """Change what the next release of the service will use; workers that run now stay as they are.

    Another plan or policy that demands less of releases than before takes the right `releases.bypass` and a
    `reason`. Raises NotAllowed, BelowPolicy, BypassReasonMissing, InvalidService, UnknownPlan,
    common.revisions.Stale.
    """
    require(actor, Right.SERVICES_WRITE, service.team, service=service.name)
    allowed = {
        "description",
        "alias",
        "engine",
        "replicas",
        "slots",
        "device",
        "resources",
        "pod",
        "settings",
        "plan_name",
        "policy",
        "policy_replaces_team",
        "image",
    }
    fixed = sorted(set(changes) - allowed)
    if fixed:
        raise InvalidService(fields={name: [_("Cannot be changed after creation.")] for name in fixed})
    if "plan_name" in changes:
        plan_named(changes["plan_name"], team=service.team)
    if changes.get("policy") is not None:
        changes["policy"] = parse_policy(changes["policy"]).to_dict()
    with transaction.atomic():
        # Locks the row, so that nobody raises the policy between the comparison and the change.
        Service.objects.filter(pk=service.pk).update(plan_name=F("plan_name"))
        service.refresh_from_db(fields=["plan_name", "policy", "policy_replaces_team"])
        before, stood_in = policy_of(service), service.policy_replaces_team
        lacked = _lacks_of_plan(service)
        for name, value in changes.items():
            setattr(service, name, value)
        _check(service)
        if changes.keys() & {"plan_name", "policy", "policy_replaces_team"}:
            field = "plan_name" if "plan_name" in changes else "policy"
            _check_plan(service, field=field, known=lacked)
        easier = lowered(before, policy_of(service))
        if service.policy_replaces_team and not stood_in:
            # It would not follow when the team demands more some day, even if it demands no less today.
            easier = (*easier, PolicyTerm("team"))
        may_lower(easier, actor=actor, team=service.team, reason=reason)
        service.change(expected=expected_revision, **changes)
        detail = changes | ({"image": str(changes["image"] or "")} if "image" in changes else {})
        audit.record(
            actor, "service.change", subject=service, team_id=service.team_id, reason=reason, detail=detail
        )
        record_lowering(easier, actor=actor, subject=service, team=service.team, reason=reason)
        events.publish(ServiceChanged(service.pk))
    return service


def keep_replicas(name: str, replicas: int) -> None:
    """Have the next release of the service start as many workers. For inside a transaction, by whoever has
    scaled and audited it; without a service of the name nothing is done.
    """
    for service in Service.objects.filter(name=name):
        Service.objects.filter(pk=service.pk).update(replicas=replicas)
        events.publish(ServiceChanged(service.pk))


def _lacks_of_plan(service: Service) -> tuple[PolicyTerm, ...]:
    try:
        return shortfalls(plan_named(service.plan_name, team=service.team), policy_of(service))
    except UnknownPlan:
        return ()


def _check_plan(service: Service, *, field: str, known: Sequence[PolicyTerm] = ()) -> None:
    """Refuse a plan and a policy that contradict each other: else each release would need a bypass.

    `known`: what the plan lacked before. Raises InvalidService.
    """
    if missing := [term for term in _lacks_of_plan(service) if term not in known]:
        sentence = _("The plan %(plan)s falls short of the release policy, which wins. %(shortfalls)s")
        told = joined(str(term) for term in missing)
        raise InvalidService(fields={field: [sentence % {"plan": service.plan_name, "shortfalls": told}]})


def _check(service: Service) -> None:
    """Raises InvalidService with all that is wrong, by field."""
    faults: dict[str, list[str]] = {}
    if service.engine not in SERVED_ENGINES:
        told = {"engine": service.engine, "known": ", ".join(SERVED_ENGINES)}
        faults["engine"] = [_("There is no '%(engine)s'; use %(known)s.") % told]
    elif wrong := setting_faults(service.engine, service.settings):
        faults["settings"] = wrong
    faults |= check_pods(service)
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
