from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from accounts.models import Membership, User
from accounts.states import Right
from clusters.models import Cluster, Worker
from freezes.models import Freeze
from releases.api.examples import POD_PATCH as PATCH_EXAMPLE
from releases.models import (
    ApprovalDelegation,
    EnvironmentGraph,
    PodPatch,
    Release,
    Service,
    ServiceAdapter,
    ServiceIndicator,
)
from releases.plans.builtin import builtin_plan
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.clusters.world import adapter_of

POD_PATCH = PATCH_EXAMPLE["patch"]
PATCHES = "services/{service}/pod-patches/"
ADAPTERS = "services/{service}/adapters/"
INDICATORS = "services/{service}/indicators/"
BODY = builtin_plan("canary").model_dump(mode="json", exclude={"name"})


def _service(scene: Scene) -> Mapping[str, Any]:
    return {"service": scene.service.name}


def _answering(scene: Scene) -> Mapping[str, Any]:
    """Give the service a stable version with a ready worker."""
    deployment = scene.worker.deployment
    Worker.objects.filter(pk=scene.worker.pk).update(address="127.0.0.1", port=9, state="ready")
    Service.objects.filter(pk=scene.service.pk).update(
        stable_version=deployment.version, stable_deployment=deployment.name
    )
    return _service(scene)


def _release(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.release.pk}


def _paused(scene: Scene) -> Mapping[str, Any]:
    return {"id": scene.paused_release.pk}


def _baking(scene: Scene) -> Mapping[str, Any]:
    Release.objects.filter(pk=scene.release.pk).update(state="promoted", bake_until=timezone.now())
    return {"id": scene.release.pk}


def _frozen(scene: Scene) -> Mapping[str, Any]:
    Freeze.objects.get_or_create(team=scene.team, name="stop")
    return _release(scene)


def _rolled_back(scene: Scene) -> Mapping[str, Any]:
    Service.objects.filter(pk=scene.service.pk).update(automation_paused_by="ada")
    return _service(scene)


def _formerly_served(scene: Scene) -> Mapping[str, Any]:
    """Let v1 serve after v0, which whoever has the right may return to."""
    service = scene.service
    for name in ("v0", "v1"):
        version = scene.version("ready", name)
        rows = Release.objects.filter(service=service, version=version, state="promoted")
        if not rows.exists():
            own = {"service": service, "team": scene.team, "version": version, "state": "promoted"}
            Release.objects.create(**own, plan_name="direct", plan=DIRECT_PLAN, plan_hash="0" * 64)
    Release.objects.filter(service=service).exclude(state="promoted").delete()
    return _service(scene)


def _plan(scene: Scene) -> Mapping[str, Any]:
    return {"plan": scene.plan.name}


def _policy(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.release_policy.team.name}


def _patch(scene: Scene) -> Mapping[str, Any]:
    _in_kubernetes(scene)
    given = {"patch": POD_PATCH, "reason": "matrix", "proposer": "somebody else"}
    patch, _is_new = PodPatch.objects.update_or_create(
        service=scene.service, state="proposed", defaults=given
    )
    return {"service": scene.service.name, "patch": patch.pk}


def _no_patch(scene: Scene) -> Mapping[str, Any]:
    PodPatch.objects.all().delete()
    return _in_kubernetes(scene)


def _in_kubernetes(scene: Scene) -> Mapping[str, Any]:
    Cluster.objects.filter(pk=scene.service.cluster_id).update(kind="kubernetes")
    return _service(scene)


def _indicator(scene: Scene) -> Mapping[str, Any]:
    ServiceIndicator.objects.get_or_create(
        service=scene.service, name="refunds", defaults={"source": "pushed"}
    )
    return {"service": scene.service.name, "indicator": "refunds"}


def _adaptable(scene: Scene) -> Mapping[str, Any]:
    Service.objects.filter(pk=scene.service.pk).update(engine="transformers")
    Cluster.objects.filter(pk=scene.service.cluster_id).update(kind="embedded")
    return {"service": scene.service.name, "adapter": "pirate"}


def _adapter(scene: Scene) -> Mapping[str, Any]:
    version = scene.version()
    ServiceAdapter.objects.get_or_create(
        service=scene.service, name="pirate", defaults={"version": version, "version_label": str(version)}
    )
    return _adaptable(scene)


def _because(scene: Scene) -> Mapping[str, Any]:
    return {"reason": "because"}


def _delegation(scene: Scene) -> Mapping[str, Any]:
    row = ApprovalDelegation.objects.create(team=scene.team, person=scene.user, delegate=_member(scene))
    return {"pk": row.pk}


def _member(scene: Scene) -> User:
    member = User.objects.get_or_create(username="there")[0]
    Membership.objects.get_or_create(user=member, team=scene.team, defaults={"role": "viewer"})
    return member


def _new_delegation(scene: Scene) -> Mapping[str, Any]:
    return {"team": scene.team.name, "delegate": _member(scene).username}


def _environments(scene: Scene) -> Mapping[str, Any]:
    """Let v2 serve in staging and v1 in production."""
    staging, _made = Service.objects.get_or_create(
        team=scene.team,
        name=f"staging-{scene.team.pk}",
        defaults={
            "model": scene.model,
            "cluster": scene.cluster,
            "engine": "echo",
            "stable_version": scene.version("ready", "v2"),
        },
    )
    Release.objects.filter(service=scene.service).delete()
    Service.objects.filter(pk=scene.service.pk).update(plan_name="direct")
    graph, is_new = EnvironmentGraph.objects.get_or_create(team=scene.team, name="chat")
    if is_new:
        rows = {"staging": (staging, []), "production": (scene.service, ["staging"])}
        for number, (name, (service, after)) in enumerate(rows.items()):
            graph.stages.create(position=number, name=name, service=service, after=after)
    return {"pk": graph.pk}


def _new_environments(scene: Scene) -> Mapping[str, Any]:
    _environments(scene)
    stages = [
        {"name": "one", "service": f"staging-{scene.team.pk}"},
        {"name": "two", "service": scene.service.name},
    ]
    return {"team": scene.team.name, "name": new_name(), "stages": stages}


DIRECT_PLAN = builtin_plan("direct").model_dump(mode="json")
ROUTES = [
    Route("GET", "services/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "services/",
        Right.SERVICES_WRITE,
        body=lambda scene: {
            "name": new_name(),
            "team": scene.team.name,
            "model": scene.model.name,
            "version": scene.version().name,
            "cluster": scene.cluster.name,
            "engine": "echo",
        },
        status=202,
        owned=False,
    ),
    Route("GET", "services/{service}/", Right.READ, fill=_service),
    Route(
        "PATCH",
        "services/{service}/",
        Right.SERVICES_WRITE,
        fill=_service,
        body=lambda scene: {"description": "x"},
    ),
    Route(
        "POST",
        "services/{service}/release-header/",
        Right.SERVICES_WRITE,
        fill=_service,
        body=lambda scene: {"release_header": "off"},
    ),
    Route("GET", "environments/", Access.SIGNED_IN, owned=False),
    Route("POST", "environments/", Right.SERVICES_WRITE, body=_new_environments, status=201, owned=False),
    Route("GET", "environments/{pk}/", Right.READ, fill=_environments),
    Route(
        "PATCH",
        "environments/{pk}/",
        Right.SERVICES_WRITE,
        fill=_environments,
        body=lambda _scene: {"description": "Ours."},
    ),
    Route("DELETE", "environments/{pk}/", Right.SERVICES_WRITE, fill=_environments, status=204),
    Route(
        "POST",
        "environments/{pk}/promote/",
        Right.RELEASES_START,
        fill=_environments,
        body=lambda _scene: {"stage": "production"},
        status=202,
    ),
    Route("GET", "delegations/", Access.SIGNED_IN, owned=False),
    Route("GET", "delegations/{pk}/", Right.READ, fill=_delegation),
    Route("POST", "delegations/", Right.RELEASES_APPROVE, body=_new_delegation, status=201, owned=False),
    Route("DELETE", "delegations/{pk}/", Right.RELEASES_APPROVE, fill=_delegation, status=204),
    Route("GET", "services/{service}/former-versions/", Right.READ, fill=_formerly_served),
    Route(
        "POST",
        "services/{service}/return/",
        Right.RELEASES_OPERATE,
        fill=_formerly_served,
        body=lambda _scene: {"version": "v0", "reason": "because"},
        status=202,
    ),
    Route("POST", "services/{service}/resume-automation/", Right.RELEASES_OPERATE, fill=_rolled_back),
    Route("GET", PATCHES, Right.READ, fill=_service),
    Route(
        "POST",
        PATCHES,
        Right.SERVICES_WRITE,
        fill=_no_patch,
        body=lambda scene: {"patch": POD_PATCH, "reason": "because"},
        status=201,
    ),
    Route("POST", f"{PATCHES}{{patch}}/approve/", Right.RELEASES_APPROVE, fill=_patch, body=_because),
    Route("POST", f"{PATCHES}{{patch}}/reject/", Right.RELEASES_APPROVE, fill=_patch, body=_because),
    Route("POST", f"{PATCHES}{{patch}}/withdraw/", Right.SERVICES_WRITE, fill=_patch, body=_because),
    Route("GET", "services/{service}/live/", Right.READ, fill=_service),
    Route(
        "POST",
        "services/{service}/ask/",
        Right.SERVICES_WRITE,
        fill=_answering,
        body=lambda _scene: {"body": {"prompt": "Hello"}},
    ),
    Route("GET", f"{ADAPTERS}", Right.READ, fill=_service),
    Route(
        "PUT",
        f"{ADAPTERS}{{adapter}}/",
        Right.RELEASES_START,
        fill=_adaptable,
        body=lambda scene: {"version": str(adapter_of(scene.team))},
        status=202,
    ),
    Route("DELETE", f"{ADAPTERS}{{adapter}}/", Right.RELEASES_START, fill=_adapter, status=204),
    Route("GET", INDICATORS, Right.READ, fill=_service),
    Route(
        "PUT",
        f"{INDICATORS}{{indicator}}/",
        Right.SERVICES_WRITE,
        fill=_indicator,
        body=lambda scene: {"source": "pushed"},
    ),
    Route("DELETE", f"{INDICATORS}{{indicator}}/", Right.SERVICES_WRITE, fill=_indicator, status=204),
    Route(
        "POST",
        f"{INDICATORS}{{indicator}}/counts/",
        Right.RELEASES_START,
        fill=_indicator,
        body=lambda scene: {
            "counts": [
                {
                    "version": str(scene.version()),
                    "at": "2026-01-01T00:00:00Z",
                    "seconds": 60,
                    "events": 9,
                    "bad": 1,
                }
            ]
        },
    ),
    Route("GET", "services/{service}/traffic/", Right.READ, fill=_service),
    Route("GET", "services/{service}/live/", Right.READ, fill=_service),
    Route("GET", "services/{service}/slow-thresholds/", Right.READ, fill=_service),
    Route(
        "POST",
        "services/{service}/slow-thresholds/",
        Right.RELEASES_APPROVE,
        fill=_service,
        body=lambda scene: {"milliseconds": 320, "reason": "because"},
        status=201,
    ),
    Route("GET", "releases/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "releases/",
        Right.RELEASES_START,
        body=lambda scene: {"service": scene.service.name, "version": scene.version("ready", "v2").name},
        status=202,
        owned=False,
    ),
    Route("GET", "releases/{id}/", Right.READ, fill=_release),
    Route("GET", "releases/{id}/events/", Right.READ, fill=_release),
    Route("POST", "releases/{id}/approve/", Right.RELEASES_APPROVE, fill=_release, body=_because),
    Route("POST", "releases/{id}/reject/", Right.RELEASES_APPROVE, fill=_release, body=_because),
    Route("POST", "releases/{id}/pause/", Right.RELEASES_OPERATE, fill=_release, body=_because),
    Route("POST", "releases/{id}/resume/", Right.RELEASES_OPERATE, fill=_paused, body=_because),
    Route("POST", "releases/{id}/abort/", Right.RELEASES_OPERATE, fill=_release, body=_because),
    Route("POST", "releases/{id}/rollback/", Right.RELEASES_OPERATE, fill=_release, body=_because),
    Route("POST", "releases/{id}/override/", Right.RELEASES_OVERRIDE, fill=_frozen, body=_because),
    Route("POST", "releases/{id}/end-bake/", Right.RELEASES_OPERATE, fill=_baking, body=_because),
    Route("GET", "release-policies/", Access.SIGNED_IN, owned=False),
    Route("GET", "release-policies/{team}/", Right.READ, fill=_policy),
    Route(
        "PUT",
        "release-policies/{team}/",
        Right.RELEASES_BYPASS,
        fill=_policy,
        body=lambda scene: {"policy": {"judge": True}, "reason": "because"},
    ),
    Route("GET", "plans/", Access.SIGNED_IN, owned=False),
    Route("GET", "plans/schema/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "plans/",
        Right.SERVICES_WRITE,
        body=lambda scene: {"name": new_name(), "team": scene.team.name, "body": BODY},
        status=201,
        owned=False,
    ),
    Route("GET", "plans/{plan}/", Right.READ, fill=_plan),
    # Another team's plan hides nothing: the same name makes a plan of one's own team.
    Route(
        "PUT",
        "plans/{plan}/",
        Right.SERVICES_WRITE,
        fill=_plan,
        body=lambda scene: {"team": scene.team.name, "body": BODY},
        owned=False,
    ),
    Route("DELETE", "plans/{plan}/", Right.SERVICES_WRITE, fill=_plan, status=204),
]
