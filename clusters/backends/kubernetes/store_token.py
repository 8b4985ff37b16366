"""The Secret with which init containers fetch model files from the control plane."""

import base64

from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.settings import KubernetesSettings, fetches_from_us
from kube.base import KubernetesClient
from kube.errors import NotFound
from kube.resources import SECRETS, Ref

STORE_TOKEN = "store-token"  # noqa: S105 - a name
"""Of the row's secret; made and renewed by the control plane."""
KEY = "token"


def hand_out(client: KubernetesClient, settings: KubernetesSettings, token: str, *, namespace: str) -> None:
    """Writes it where it is missing or another one. A Secret of that name which is not ours stays: whoever
    made it gave pods a token of their own. Raises KubeError."""
    if not token or not fetches_from_us(settings.model_files, settings.store_url):
        return
    wanted = base64.b64encode(token.encode()).decode()
    try:
        found = client.get(Ref(SECRETS, settings.store_secret, namespace))
    except NotFound:
        found = None
    if found is not None:
        is_ours = (found["metadata"].get("labels") or {}).get(MANAGED_BY) == "slipway"
        if not is_ours or (found.get("data") or {}).get(KEY) == wanted:
            return
    client.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": settings.store_secret,
                "namespace": namespace,
                "labels": {MANAGED_BY: "slipway"},
            },
            "type": "Opaque",
            "data": {KEY: wanted},
        },
        force=True,
    )
