"""The Gateway of a gateway's row, told with the credential of its cluster."""

from clusters import selectors as fleet
from clusters.backends.base import ClusterUnreachable, Misconfigured
from clusters.backends.configured import backend_of
from gateway.backends.base import GatewayBackend, GatewayRowConfig
from gateway.backends.gateway_api.backend import GatewayApi
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import InvalidGateway
from kube.base import KubernetesClient


def from_config(config: GatewayRowConfig) -> GatewayBackend:
    """Raises InvalidGateway."""
    if config.secrets:
        raise InvalidGateway(
            fields={"secrets": ["A gateway of this kind is told with the credential of its cluster."]}
        )
    settings = GatewayApiSettings.read(config.settings)
    return GatewayBackend(
        traffic=GatewayApi(_client_of(config.cluster), settings),
        metrics=None,
        public_url=settings.public_url,
    )


def _client_of(cluster: str) -> KubernetesClient:
    """Raises InvalidGateway."""
    try:
        client = getattr(backend_of(fleet.cluster(cluster)), "client", None)
    except (Misconfigured, ClusterUnreachable) as error:
        raise InvalidGateway(f"The cluster {cluster} cannot be asked: {error}") from None
    if client is None:
        raise InvalidGateway(
            fields={"kind": [f"{cluster} is no Kubernetes cluster: a gateway of this kind is part of one."]}
        )
    made: KubernetesClient = client
    return made
