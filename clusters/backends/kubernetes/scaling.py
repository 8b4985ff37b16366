"""Replicas of a Deployment that others set: a HorizontalPodAutoscaler, KEDA, or people.

Where that is left to others, our own apply does not name `spec.replicas`. What a release wishes to begin with
is applied once, by a field manager of its own, which others overrule afterwards. Elsewhere our apply names
them until others have changed them; a later wish of ours takes them back. An annotation says which wish was
carried out last.
"""

from typing import Any

from clusters.backends.base import DeploymentSpec, ObservedScale
from kube.base import KubernetesClient, Object
from kube.client import FIELD_MANAGER
from kube.errors import NotFound
from kube.resources import DEPLOYMENTS, Ref

MANAGER = "slipway-replicas"
TURN = "slipway.io/scaled-at"


def begin_with(client: KubernetesClient, spec: DeploymentSpec, namespace: str) -> None:
    """Carry out a wish for a number of workers that was not carried out yet. Raises errors of `kube`."""
    found = _read(client, spec.name, namespace)
    if found is None or spec.scale_turn is None or _turn_of(found) >= spec.scale_turn:
        return
    guard = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
    metadata = {"name": spec.name, "namespace": namespace, **guard}
    document = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata | {"annotations": {TURN: str(spec.scale_turn)}},
        "spec": {"replicas": spec.replicas},
    }
    client.apply(document, force=True, manager=MANAGER)


def turn_mark(spec: DeploymentSpec) -> dict[str, str]:
    return {} if spec.scale_turn is None else {TURN: str(spec.scale_turn)}


def without_foreign_replicas(document: Object, found: Object) -> Object:
    """Leave replicas out that others set since the wish that the document carries out."""
    if "replicas" not in document["spec"] or TURN not in document["metadata"].get("annotations", {}):
        return document
    if not _others(found) or _turn_of(document) > _turn_of(found):
        return document
    return document | {"spec": {key: one for key, one in document["spec"].items() if key != "replicas"}}


def scale_of(client: KubernetesClient, deployment: str, namespace: str) -> ObservedScale | None:
    found = _read(client, deployment, namespace)
    if found is None:
        return None
    others = _others(found)
    return ObservedScale(int(found["spec"].get("replicas", 1)), others[0] if others else "", _turn_of(found))


def _read(client: KubernetesClient, deployment: str, namespace: str) -> Object | None:
    try:
        return client.get(Ref(DEPLOYMENTS, deployment, namespace))
    except NotFound:
        return None


def _turn_of(found: Object) -> int:
    told = (found["metadata"].get("annotations") or {}).get(TURN, "")
    return int(told) if told.isdecimal() else 0


def _others(found: Object) -> list[str]:
    """Return who has set the replicas; nobody, as long as ours are the same."""
    owners = [one for one in found["metadata"].get("managedFields") or () if _owns_replicas(one)]
    if any(one.get("manager") == FIELD_MANAGER for one in owners):
        return []
    return [str(one["manager"]) for one in owners if one.get("manager") != MANAGER]


def _owns_replicas(entry: dict[str, Any]) -> bool:
    return "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
