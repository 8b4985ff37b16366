"""InferencePools (Gateway API Inference Extension, v1): one for each version that a route leads to.

A pool chooses among the pods of one deployment by a picker of the user's; between two pools the route's
weights decide, as between two Services. Pools of others are never touched.
"""

from collections.abc import Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from clusters.backends.kubernetes.manifests import DEPLOYMENT
from gateway.backends.gateway_api.documents import MANAGED_BY
from gateway.backends.gateway_api.rules import POOL_GROUP
from gateway.backends.gateway_api.settings import EndpointPicker
from gateway.errors import InvalidRoute
from gateway.routes import NamedService
from kube.base import KubernetesClient
from kube.errors import NotFound, NotServed, ObjectChanged
from kube.resources import INFERENCE_POOLS, Ref

KEPT_AFTER = timedelta(minutes=15)
"""So long after it was made a pool stays without a route: the one that it was made for is on its way."""


def pool_of(place: NamedService, picker: EndpointPicker) -> dict[str, Any]:
    return {
        "apiVersion": f"{POOL_GROUP}/v1",
        "kind": "InferencePool",
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
            "labels": {MANAGED_BY: "slipway", DEPLOYMENT: place.name},
        },
        "spec": {
            "selector": {"matchLabels": {DEPLOYMENT: place.name}},
            "targetPorts": [{"number": place.port}],
            "endpointPickerRef": {
                "name": picker.name_for(place.name),
                "port": {"number": picker.port},
                "failureMode": picker.failure_mode,
            },
        },
    }


def ensure_pool(client: KubernetesClient, place: NamedService, picker: EndpointPicker) -> None:
    """Make it, or mend it. Raises InvalidRoute where there is one of somebody else, or no such kind."""
    ref = Ref(INFERENCE_POOLS, place.name, place.namespace)
    try:
        with suppress(NotFound):
            found = client.get(ref)
            if (found["metadata"].get("labels") or {}).get(MANAGED_BY) != "slipway":
                raise InvalidRoute(
                    f"The namespace {place.namespace} has an InferencePool {place.name} that is not "
                    "Slipway's. Rename it."
                )
        client.apply(pool_of(place, picker), force=True)
    except NotServed:
        raise InvalidRoute(
            "The cluster has no InferencePools (inference.networking.k8s.io/v1): install the Gateway API "
            "Inference Extension, or drop the setting inference_pools."
        ) from None


def has_pool(client: KubernetesClient, place: NamedService) -> bool:
    try:
        client.get(Ref(INFERENCE_POOLS, place.name, place.namespace))
    except (NotFound, NotServed):
        return False
    return True


def remove_unused(client: KubernetesClient, namespace: str, *, used: Collection[str], now: datetime) -> None:
    """Pools of ours that no route leads to any more."""
    try:
        found = client.list(INFERENCE_POOLS, namespace=namespace, labels=f"{MANAGED_BY}=slipway").items
    except NotServed:
        return
    for pool in found:
        metadata = pool["metadata"]
        born = datetime.fromisoformat(metadata["creationTimestamp"])
        if metadata["name"] in used or now - born < KEPT_AFTER:
            continue
        with suppress(NotFound, ObjectChanged):
            client.delete(
                Ref(INFERENCE_POOLS, metadata["name"], namespace),
                uid=metadata["uid"],
                version=metadata["resourceVersion"],
            )
