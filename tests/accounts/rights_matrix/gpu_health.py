from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from accounts.states import Right
from clusters.models import AgentToken
from gpu_health.models import Finding, GpuCheck, GpuCount
from gpu_health.services.rules import change_rule
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM

RULE = "gpu-health/rules/{rule}/"
NAME = "default-xid.79"
RULE_OF_OURS = {"fault": "xid.79", "mode": "record", "ladder": ["reboot"]}


def _finding(scene: Scene) -> Mapping[str, Any]:
    now = timezone.now()
    node = scene.cluster.nodes.get()
    finding = Finding.objects.create(
        node=node,
        fault="xid.79",
        device=new_name(),
        severity="fatal",
        outcome="propose",
        ladder=["reboot"],
        drain="node",
        verification="none",
        first_at=now,
        last_at=now,
    )
    return {"id": finding.pk}


def _rule(_scene: Scene) -> Mapping[str, Any]:
    return {"rule": NAME}


def _changed_rule(_scene: Scene) -> Mapping[str, Any]:
    change_rule(actor=SYSTEM, name=NAME, given={"mode": "off"}, reason="matrix")
    return {"rule": NAME}


def _report(scene: Scene) -> Mapping[str, Any]:
    token = scene.user.tokens.latest("pk")
    node = scene.cluster.nodes.get()
    spoken_for = {"cluster": scene.cluster, "node_uid": node.uid}
    AgentToken.objects.update_or_create(token=token, defaults=spoken_for)
    return {"readings": []}


def _machine(scene: Scene) -> Mapping[str, Any]:
    GpuCheck.objects.all().delete()
    scene.cluster.nodes.update(name="matrix-machine")
    GpuCount.objects.update_or_create(node=scene.cluster.nodes.get(), defaults={"fixed": 8})
    return {}


def _check(scene: Scene) -> Mapping[str, Any]:
    given = {"ordered_by": "matrix", "waits_until": timezone.now()}
    check, _is_new = GpuCheck.objects.update_or_create(node=scene.cluster.nodes.get(), defaults=given)
    return {"id": check.pk}


ROUTES = [
    Route("GET", "gpu-health/findings/", Access.SIGNED_IN, owned=False),
    Route("GET", "gpu-health/findings/{id}/", Right.READ, fill=_finding),
    Route(
        "POST",
        "gpu-health/findings/{id}/close/",
        Right.FLEET_OPERATE,
        fill=_finding,
        body=lambda scene: {"reason": "reseated"},
    ),
    Route("GET", "gpu-health/counts/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/counts/expect/",
        Right.FLEET_OPERATE,
        fill=_machine,
        body=lambda scene: {"node": "matrix-machine", "count": 7, "reason": "taken out"},
    ),
    Route("POST", "gpu-health/readings/", Right.FLEET_REPORT, body=_report, owned=False),
    Route("GET", "gpu-health/checks/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/checks/",
        Right.FLEET_OPERATE,
        fill=_machine,
        body=lambda scene: {"node": "matrix-machine"},
        status=201,
    ),
    Route("GET", "gpu-health/checks/{id}/", Right.READ, fill=_check),
    Route("POST", "gpu-health/checks/{id}/cancel/", Right.FLEET_OPERATE, fill=_check, body=lambda scene: {}),
    Route("POST", "gpu-health/events/", Right.FLEET_EVENTS, body=lambda scene: {"events": []}, owned=False),
    # Judged by its signature alone: whoever has none is refused, with a token or without one.
    Route("POST", "gpu-health/events/sns/", Access.ANYBODY, body=lambda scene: {}, status=403, owned=False),
    Route("GET", "gpu-health/rules/", Access.SIGNED_IN, owned=False),
    Route("GET", "gpu-health/rules/disagreements/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/rules/",
        Access.ADMINISTRATOR,
        body=lambda scene: RULE_OF_OURS | {"reason": "matrix"},
        status=201,
        owned=False,
    ),
    Route("POST", "gpu-health/rules/try/", Access.SIGNED_IN, body=lambda scene: RULE_OF_OURS, owned=False),
    Route("GET", "gpu-health/rules/presets/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/rules/presets/preview/",
        Access.SIGNED_IN,
        body=lambda scene: {"preset": "nvidia"},
        owned=False,
    ),
    Route(
        "POST",
        "gpu-health/rules/presets/choose/",
        Access.ADMINISTRATOR,
        body=lambda scene: {"preset": "nvidia", "reason": "matrix"},
        owned=False,
    ),
    Route("GET", RULE, Access.SIGNED_IN, fill=_rule, owned=False),
    Route(
        "POST",
        f"{RULE}preview/",
        Access.SIGNED_IN,
        fill=_rule,
        body=lambda scene: {"mode": "off"},
        owned=False,
    ),
    Route(
        "PUT",
        RULE,
        Access.ADMINISTRATOR,
        fill=_rule,
        body=lambda scene: {"mode": "off", "reason": "matrix"},
        owned=False,
    ),
    Route("DELETE", RULE, Access.ADMINISTRATOR, fill=_changed_rule, status=204, owned=False),
]
