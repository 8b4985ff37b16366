"""The backend of a row. It belongs to the row: two clusters of a kind are two backends."""

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, cast

from django.conf import settings

from clusters.backends.base import ClusterBackend, ClusterConfig, ClusterUnreachable, Misconfigured
from clusters.backends.extras import Closable
from common import audit
from common.hosts import this_host
from common.sealed import CannotUnseal, unseal

if TYPE_CHECKING:
    from clusters.models import Cluster

SECRETS_PURPOSE = "cluster-secret"

_connected: dict[int, tuple[int, ClusterBackend]] = {}
"""By the row's id: the revision that it was made from, and what was made."""


def backend_of(cluster: "Cluster") -> ClusterBackend:
    """The backend of this row as it is written now: another revision is connected to anew.

    Raises Misconfigured when the row's kind, settings or secrets do not lead anywhere, ClusterUnreachable
    when its data plane is another host's.
    """
    if cluster.host not in ("", this_host()):
        raise ClusterUnreachable(f"{cluster.name} is run by the host {cluster.host} alone.")
    held = _connected.get(cluster.pk)
    if held is not None and held[0] == cluster.revision:
        return held[1]
    backend = connect(cluster)
    _connected[cluster.pk] = (cluster.revision, backend)
    return backend


def keep_only(clusters: Collection[int]) -> None:
    """Forget the backends of all other clusters in this process, and what they sign in by."""
    for pk in [pk for pk in list(_connected) if pk not in clusters]:
        held = _connected.pop(pk, None)
        if held is not None and isinstance(held[1], Closable):
            held[1].close()


def connect(cluster: "Cluster") -> ClusterBackend:
    """A backend made from the row, saved or not; nothing is asked of it yet. Raises Misconfigured."""
    name = settings.SLIPWAY_CLUSTER_BACKENDS.get(cluster.kind)
    if name is None:
        raise Misconfigured(f"This installation cannot run clusters of the kind {cluster.kind}.")
    try:
        secrets = {
            key: unseal(sealed, purpose=SECRETS_PURPOSE) for key, sealed in cluster.sealed_secrets.items()
        }
    except CannotUnseal as error:
        raise Misconfigured(str(error)) from None
    config = ClusterConfig(
        name=cluster.name, settings=cluster.settings, secrets=secrets, installation=audit.installation()
    )
    return cast(ClusterBackend, import_module(name).connect(config))
