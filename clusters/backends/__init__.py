"""Whatever runs model workers, by the kind of the cluster."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from django.conf import settings

from clusters.backends.base import ClusterBackend
from clusters.errors import UnknownKind

if TYPE_CHECKING:
    from clusters.models import Cluster


def backend_of(cluster: "Cluster") -> ClusterBackend:
    """The backend that runs this cluster, one per process. Raises UnknownKind."""
    return _backend(cluster.kind)


@cache
def _backend(kind: str) -> ClusterBackend:
    name = settings.SLIPWAY_CLUSTER_BACKENDS.get(kind)
    if name is None:
        raise UnknownKind(f"This installation cannot run clusters of the kind {kind}.")
    return cast(ClusterBackend, import_module(name).from_settings())
