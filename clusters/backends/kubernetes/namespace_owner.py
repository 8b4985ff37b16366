"""Ownership of a namespace: two installations in one would take each other's objects for their own."""

from time import monotonic

from clusters.backends.base import CannotRun
from clusters.backends.kubernetes.manifests import MANAGED_BY
from kube.base import KubernetesClient, Object
from kube.errors import AlreadyExists, NotFound
from kube.resources import CONFIG_MAPS, Ref

MARK = "slipway-installation"
"""The ConfigMap that says it."""
LOOKED_AT_AGAIN_SECONDS = 60.0
_KEY = "installation"


class NamespaceOwner:
    """`installation`: whose they are to be, as `common.audit.installation` names it; empty: nobody's."""

    def __init__(self, client: KubernetesClient, installation: str) -> None:
        self._client = client
        self._installation = installation
        self._seen: dict[str, float] = {}
        """By namespace that is ours: when that was so."""

    def take(self, namespace: str) -> None:
        """Raises CannotRun for one that another installation has, and KubeError."""
        seen = self._seen.get(namespace)
        if not self._installation or (seen is not None and monotonic() - seen < LOOKED_AT_AGAIN_SECONDS):
            return
        mark = self._made(namespace)
        whose = (mark.get("data") or {}).get(_KEY, "")
        if whose != self._installation:
            since = mark["metadata"].get("creationTimestamp", "?")
            raise CannotRun(
                f"The namespace {namespace} belongs to another installation of Slipway "
                f"({whose or 'unknown'}, since {since}). Give this one a namespace of its own. If the other "
                f"is gone for good, take away what it left: kubectl delete configmap,job,secret "
                f"-n {namespace} -l {MANAGED_BY}=slipway, and httproute, too, where the cluster has them."
            )
        self._seen[namespace] = monotonic()

    def _made(self, namespace: str) -> Object:
        ref = Ref(CONFIG_MAPS, MARK, namespace)
        try:
            return self._client.get(ref)
        except NotFound:
            pass
        try:
            return self._client.create(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": MARK, "namespace": namespace, "labels": {MANAGED_BY: "slipway"}},
                    "data": {_KEY: self._installation},
                }
            )
        except AlreadyExists:
            return self._client.get(ref)
