"""The account that Slipway's manifest makes, on a fake API server that knows RBAC."""

from collections.abc import Iterable

from clusters.backends.kubernetes.rights import Feature, manifest
from kube.fake.server import FakeApiServer
from kube.fake.wire import RequestUser

RBAC = "rbac.authorization.k8s.io"
KINDS = {
    "ConfigMap": "configmaps",
    "Role": f"roles.{RBAC}",
    "RoleBinding": f"rolebindings.{RBAC}",
    "ClusterRole": f"clusterroles.{RBAC}",
    "ClusterRoleBinding": f"clusterrolebindings.{RBAC}",
}


ALL = tuple(Feature)


def user_of(namespace: str) -> RequestUser:
    return RequestUser(f"system:serviceaccount:{namespace}:slipway", ("system:authenticated",))


def grant(
    server: FakeApiServer,
    *namespaces: str,
    features: Iterable[Feature] = ALL,
    to: str = "slipway",
) -> RequestUser:
    """Apply the manifest for each namespace; the account is that of the namespace `to`. With ALL features
    nothing says which they are: tests that count ConfigMaps have none of the manifest's."""
    for namespace in namespaces or (to,):
        for document in manifest(namespace=namespace, features=features):
            if document["kind"] not in KINDS or (document["kind"] == "ConfigMap" and features is ALL):
                continue
            document["metadata"]["uid"] = f"{document['kind']}-{namespace}"
            for subject in document.get("subjects", ()):
                subject["namespace"] = to
            server.plant(KINDS[document["kind"]], document)
    return user_of(to)


def revoke(server: FakeApiServer, *kinds: str) -> None:
    """Take away what binds roles to accounts: all, or only the bindings of these kinds."""
    for kind in kinds or (f"rolebindings.{RBAC}", f"clusterrolebindings.{RBAC}"):
        for binding in server.storage.items(server.kind_of(kind)):
            server.storage.remove(server.kind_of(kind), binding)
