"""Every write of environments: the graph, a promotion along an edge, a service copied to another cluster."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import team_rows
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters.models import Cluster
from common import audit
from common.actor import Actor
from common.errors import Conflict, Invalid, SlipwayError
from models_registry.models import Version
from releases.environment_models import EnvironmentGraph, EnvironmentStage
from releases.errors import NotPossibleNow
from releases.models import Release, Service
from releases.selectors.environments import stages_of
from releases.services.release import start_release
from releases.services.service import create_service

logger = logging.getLogger(__name__)
ACTOR = Actor.system("environments")
MOST_STAGES = 20


def create_environments(
    *, actor: Actor, team: Team, name: str, stages: Sequence[Mapping[str, Any]], description: str = ""
) -> EnvironmentGraph:
    """`stages`: `{name, service, after, is_automatic}` in their order; without `after` each follows the one
    before it. Raises NotAllowed, Conflict, Invalid.
    """
    require(actor, Right.SERVICES_WRITE, team)
    rows = _checked(stages, team)
    graph = EnvironmentGraph(team=team, name=name, description=description)
    with transaction.atomic():
        team_rows.create(graph, actor=actor, right=Right.SERVICES_WRITE)
        for row in rows:
            row.graph = graph
        EnvironmentStage.objects.bulk_create(rows)
    return graph


def change_environments(
    graph: EnvironmentGraph,
    *,
    actor: Actor,
    stages: Sequence[Mapping[str, Any]] | None = None,
    description: str | None = None,
    reason: str = "",
) -> EnvironmentGraph:
    """Give the graph other stages, as `create_environments` takes them, or another description.

    Raises NotAllowed, Invalid.
    """
    require(actor, Right.SERVICES_WRITE, graph.team)
    rows = None if stages is None else _checked(stages, graph.team)
    with transaction.atomic():
        if description is not None:
            graph.description = description
            graph.save(update_fields=["description"])
        if rows is not None:
            refusals = {(one.name, one.service_id): one.refusal for one in graph.stages.all()}
            graph.stages.all().delete()
            for row in rows:
                row.graph, row.refusal = graph, refusals.get((row.name, row.service_id), "")
            EnvironmentStage.objects.bulk_create(rows)
        detail = {"stages": [dict(one) for one in stages]} if stages is not None else {}
        told: dict[str, Any] = {"team_id": graph.team_id, "reason": reason, "detail": detail}
        audit.record(actor, "environmentgraph.change", subject=graph, **told)
    return graph


def delete_environments(graph: EnvironmentGraph, *, actor: Actor, reason: str = "") -> None:
    """Forget the graph; its services stay. Raises NotAllowed."""
    require(actor, Right.SERVICES_WRITE, graph.team)
    with transaction.atomic():
        audit.record(actor, "environmentgraph.delete", subject=graph, team_id=graph.team_id, reason=reason)
        graph.delete()


def promote(graph: EnvironmentGraph, *, stage: str, actor: Actor, reason: str = "") -> Release:
    """Release what the stage before it serves, by the plan of the stage's service.

    Raises NotPossibleNow when nothing is ahead, and what `start_release` raises.
    """
    view = next((one for one in stages_of(graph) if one.stage.name == stage), None)
    if view is None:
        raise Invalid(fields={"stage": [_("There is no stage %(stage)s.") % {"stage": stage}]})
    version = view.next_version
    if view.upstream is None or version is None:
        raise NotPossibleNow(_("Nothing is ahead of %(stage)s.") % {"stage": stage})
    words = reason or f"Promoted from {view.upstream.name}."  # untranslated
    return start_release(actor=actor, service=view.service, version=version, reason=words, bypass=None)


def promote_automatically(release: Release) -> None:
    """Release what was just promoted in the stages after it that are automatic; refusals are kept there.

    A freeze of such a stage holds the release until it ends.
    """
    if release.undoes_id is not None:
        return
    here = EnvironmentStage.objects.filter(service=release.service_id)
    for stage in here:
        later = stage.graph.stages.filter(is_automatic=True).select_related("service")
        for one in later:
            if stage.name in one.after:
                reason = f"Promoted from {stage.name} by release {release.pk}."  # untranslated
                _start(one, release.version, reason)


def promote_what_waited(service_id: int | None = None) -> None:
    """Try once more what a stage of the service, or of any, refused: what stood in its way may be gone."""
    refused = EnvironmentStage.objects.filter(is_automatic=True).exclude(refusal="")
    if service_id is not None:
        refused = refused.filter(service=service_id)
    for stage in refused.select_related("graph", "service"):
        view = next(one for one in stages_of(stage.graph) if one.stage.pk == stage.pk)
        if view.upstream is not None and view.next_version is not None and not view.goes_back:
            reason = f"Promoted from {view.upstream.name}, after a wait."  # untranslated
            _start(stage, view.next_version, reason)


def copy_service(
    service: Service, *, name: str, cluster: Cluster, actor: Actor, plan_name: str = ""
) -> Service:
    """Create a service with the settings of another one, and its stable version, on another cluster.

    Raises NotAllowed, Conflict while the first one serves nothing, and what `create_service` raises.
    """
    if service.stable_version is None:
        raise Conflict(_("%(service)s serves nothing yet that could be copied.") % {"service": service.name})
    copied = ("engine", "replicas", "slots", "device", "description", "resources", "pod", "settings", "image")
    return create_service(
        actor=actor,
        team=service.team,
        name=name,
        model=service.model,
        version=service.stable_version,
        cluster=cluster,
        plan_name=plan_name or service.plan_name,
        **{one: getattr(service, one) for one in copied},
    )


def _start(stage: EnvironmentStage, version: Version, reason: str) -> None:
    refusal = ""
    try:
        if paused_by := stage.service.automation_paused_by:
            paused = _("%(person)s rolled %(service)s back: resume its automatic releases first.")
            raise NotPossibleNow(paused % {"person": paused_by, "service": stage.service.name})
        start_release(
            actor=ACTOR, service=stage.service, version=version, reason=reason, bypass=None, waits=True
        )
    except SlipwayError as error:
        refusal = str(error)
        logger.info("Stage %s takes no version: %s", stage, refusal)
    EnvironmentStage.objects.filter(pk=stage.pk).update(refusal=refusal)


def _checked(stages: Sequence[Mapping[str, Any]], team: Team) -> list[EnvironmentStage]:
    """Raises Invalid."""
    if not 2 <= len(stages) <= MOST_STAGES:
        raise Invalid(fields={"stages": [_("Give 2 to %(most)s stages.") % {"most": MOST_STAGES}]})
    services = {row.name: row for row in Service.objects.filter(team=team)}
    found: list[EnvironmentStage] = []
    faults: list[str] = []
    for number, given in enumerate(stages):
        names = [one.name for one in found]
        service = services.get(given["service"])
        after = given.get("after")
        after = names[-1:] if after is None else list(after)
        if service is None:
            told = _("Team %(team)s has no service %(service)s.")
            faults.append(told % {"team": team, "service": given["service"]})
            continue
        if given["name"] in names or any(one.service == service for one in found):
            faults.append(_("%(stage)s: each stage and service may come once.") % {"stage": given["name"]})
        if unknown := [one for one in after if one not in names]:
            told = _("%(stage)s comes after %(unknown)s, which is no stage before it.")
            faults.append(told % {"stage": given["name"], "unknown": ", ".join(unknown)})
        if found and service.model_id != found[0].service.model_id:
            told = _("%(service)s serves another model than the stages before it.")
            faults.append(told % {"service": service.name})
        is_automatic = bool(given.get("is_automatic", False))
        found.append(
            EnvironmentStage(
                position=number, name=given["name"], service=service, after=after, is_automatic=is_automatic
            )
        )
    if faults:
        raise Invalid(fields={"stages": faults})
    return found
