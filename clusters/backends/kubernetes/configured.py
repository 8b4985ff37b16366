"""A Kubernetes cluster as a row configures it: its kubeconfig is a secret of the row."""

from urllib.parse import urlsplit

from clusters.backends.base import ClusterConfig, Misconfigured
from clusters.backends.kubernetes.addresses import addresses_of, check_host
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.relay import RELAY_TOKEN
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.kubernetes.store_token import STORE_TOKEN
from kube.errors import BadConfig
from kube.kubeconfig import access_of

KUBECONFIG = "kubeconfig"


def connect(config: ClusterConfig) -> KubernetesCluster:
    """The namespace is one of the cluster's own settings; asks nothing of it yet. Raises Misconfigured."""
    settings = KubernetesSettings.read(config.settings)
    if unknown := sorted(config.secrets.keys() - {KUBECONFIG, STORE_TOKEN, RELAY_TOKEN}):
        raise Misconfigured(
            f"A Kubernetes cluster has no secret {unknown[0]}: it has {KUBECONFIG}.", about="secrets"
        )
    kubeconfig = config.secrets.get(KUBECONFIG, "")
    if not kubeconfig.strip():
        raise Misconfigured(f"Give the secret {KUBECONFIG}: the text of the file.", about="secrets")
    try:
        from kube.real.transport import connect as connect_real
    except ImportError:
        # An extra, which who has no such clusters need not have.
        raise Misconfigured(
            "Clusters of this kind need a package that is not here: pip install 'slipway[kubernetes]'."
        ) from None
    try:
        access = access_of(kubeconfig, context=settings.context)
        for address in filter(None, (access.server, access.proxy)):
            check_host(urlsplit(address).hostname or "")
        client = connect_real(access, judge=addresses_of)
    except BadConfig as error:
        raise Misconfigured(str(error), about="secrets") from None
    return KubernetesCluster(
        client,
        settings,
        store_token=config.secrets.get(STORE_TOKEN, ""),
        relay_token=config.secrets.get(RELAY_TOKEN, ""),
        installation=config.installation,
    )
