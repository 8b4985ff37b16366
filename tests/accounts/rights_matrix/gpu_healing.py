from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from accounts.states import Right
from gpu_health.models import HealingPool, Incident
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name

INCIDENT = "gpu-health/incidents/{id}/"
PRICES = {"currency": "USD", "prices": [{"gpu_model": "H100", "cluster": "", "per_hour": "2.49"}]}


def _incident(scene: Scene, **more: Any) -> Mapping[str, Any]:
    given: dict[str, Any] = {
        "pool": "ours/default",
        "fault": "xid.79",
        "severity": "fatal",
        "ladder": ["reboot", "replace"],
        "drain": "node",
        "verification": "none",
        "first_at": timezone.now(),
    }
    incident, _is_new = Incident.objects.update_or_create(
        node=scene.cluster.nodes.get(), defaults=given | more
    )
    return {"id": incident.pk}


def _waiting(scene: Scene) -> Mapping[str, Any]:
    return _incident(scene, state="quarantined", hold="approval", asked_at=timezone.now(), approved_climb=0)


def _held(scene: Scene) -> Mapping[str, Any]:
    return _incident(scene, held_by="ada", held_reason="wait")


def _for_a_person(scene: Scene) -> Mapping[str, Any]:
    return _incident(scene, state="needs_person")


def _in_a_rack(scene: Scene) -> Mapping[str, Any]:
    labels = {"topology.kubernetes.io/rack": "r1"}
    scene.cluster.nodes.update(labels=labels, is_cordoned=False, operation="")
    return _incident(scene, state="quarantined", hold="domain", asked_at=timezone.now(), approved_climb=0)


def _pool(_scene: Scene) -> Mapping[str, Any]:
    return {"id": HealingPool.objects.create(name=new_name(), breaker_opened_at=timezone.now()).pk}


def _why(_scene: Scene) -> Mapping[str, Any]:
    return {"reason": "matrix"}


ROUTES = [
    Route("GET", "gpu-health/incidents/", Access.SIGNED_IN, owned=False),
    Route("GET", INCIDENT, Right.READ, fill=_incident),
    Route("GET", f"{INCIDENT}timeline/", Right.READ, fill=_incident),
    Route("GET", f"{INCIDENT}evidence/", Right.READ, fill=_incident),
    Route("POST", f"{INCIDENT}approve/", Right.FLEET_OPERATE, fill=_waiting, body=_why),
    Route("GET", f"{INCIDENT}rma/", Right.READ, fill=_incident),
    Route("POST", f"{INCIDENT}approve-domain/", Right.FLEET_OPERATE, fill=_in_a_rack, body=_why),
    Route("POST", f"{INCIDENT}cordon-domain/", Right.FLEET_OPERATE, fill=_in_a_rack, body=_why),
    Route("POST", f"{INCIDENT}hold/", Right.FLEET_OPERATE, fill=_incident, body=_why),
    Route("POST", f"{INCIDENT}resume/", Right.FLEET_OPERATE, fill=_held, body=_why),
    Route("POST", f"{INCIDENT}verify/", Right.FLEET_OPERATE, fill=_for_a_person, body=_why),
    Route("POST", f"{INCIDENT}cancel/", Right.FLEET_OPERATE, fill=_incident, body=_why),
    Route("GET", "gpu-health/healing/", Access.SIGNED_IN, owned=False),
    Route("POST", "gpu-health/healing/stop/", Right.FLEET_OPERATE, body=_why, owned=False),
    Route("POST", "gpu-health/healing/restart/", Access.ADMINISTRATOR, body=_why, owned=False),
    Route(
        "POST",
        "gpu-health/healing/change/",
        Access.ADMINISTRATOR,
        body=lambda scene: {"mode": "dry_run", "reason": "matrix"},
        owned=False,
    ),
    Route("GET", "gpu-health/statistics/", Access.SIGNED_IN, owned=False),
    Route("GET", "gpu-health/statistics/export/", Access.SIGNED_IN, owned=False),
    Route("GET", "gpu-health/prices/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/prices/change/",
        Access.ADMINISTRATOR,
        body=lambda scene: PRICES | {"reason": "matrix"},
        owned=False,
    ),
    Route("GET", "gpu-health/pools/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/pools/{id}/close-breaker/",
        Access.ADMINISTRATOR,
        fill=_pool,
        body=lambda scene: {"backlog": "replay", "reason": "matrix"},
        owned=False,
    ),
]
