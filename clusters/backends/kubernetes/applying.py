"""Writing objects of ours as they are wanted, whoever else writes beside us."""

from collections.abc import Mapping

from clusters.backends.base import ClusterUnreachable
from clusters.backends.kubernetes.anchors import check_fence, check_ours
from clusters.backends.kubernetes.scaling import without_foreign_replicas
from common.fence import Fence
from kube import errors
from kube.base import KubernetesClient, Object
from kube.client import FIELD_MANAGER
from kube.resources import BY_KIND, DEPLOYMENTS, Ref

ATTEMPTS = 5


def put(
    client: KubernetesClient, document: Object, fence: Fence, begins: Mapping[str, int]
) -> tuple[Object | None, Object]:
    """Write the object as it is wanted; return it as it was (None: it was not there) and as it is.

    A writer who was overtaken meets another resourceVersion, looks again, and stops at the newer fence.
    `begins`: fields of the spec that it has only when it is created. Raises ClusterUnreachable.
    """
    metadata = document["metadata"]
    ref = Ref(BY_KIND[document["apiVersion"], document["kind"]], metadata["name"], metadata["namespace"])
    for _ in range(ATTEMPTS):
        try:
            found = client.get(ref)
        except errors.NotFound:
            found = None
        try:
            if found is None:
                made = {"spec": document["spec"] | begins} if begins else {}
                return None, client.create(document | made)
            check_ours(found)
            check_fence(found, fence)
            found = _taken_over(client, ref, found)
            guard = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
            wanted = without_foreign_replicas(document, found) if ref.resource == DEPLOYMENTS else document
            return found, client.apply(wanted | {"metadata": metadata | guard}, force=True)
        except (errors.AlreadyExists, errors.ObjectChanged, errors.NotFound):
            continue
    raise ClusterUnreachable(f"{ref} is changed by others faster than it can be written.")


def _taken_over(client: KubernetesClient, ref: Ref, found: Object) -> Object:
    """Make the fields set by our `create` those of our applier; otherwise they would stay when no longer
    applied.

    The entry of managedFields is rewritten as client-go's csaupgrade does.
    """
    managers = found["metadata"].get("managedFields") or []
    taken = [one | {"operation": "Apply"} if _is_our_update(one) else one for one in managers]
    if taken == managers:
        return found
    version = found["metadata"]["resourceVersion"]
    return client.patch(
        ref,
        [
            {"op": "replace", "path": "/metadata/managedFields", "value": taken},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ],
    )


def _is_our_update(entry: Object) -> bool:
    ours = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Update"
    return ours and not entry.get("subresource")
