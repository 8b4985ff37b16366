"""The relay of a cluster: one pod that hears its workers and reports them (`serving.relay`)."""

import base64
from typing import Any

from clusters.backends.kubernetes.files.base import CONFINED
from clusters.backends.kubernetes.manifests import MANAGED_BY
from clusters.backends.kubernetes.settings import RELAY, RELAY_PORT, KubernetesSettings
from kube.base import KubernetesClient
from kube.errors import NotFound
from kube.resources import BY_KIND, Ref

Document = dict[str, Any]

RELAY_TOKEN = "relay-token"  # noqa: S105 - a name
"""Of the row's secret; made and renewed by the control plane."""
_KEY = "token"
_DIRECTORY = "/run/slipway"
_LABELS = {MANAGED_BY: "slipway", "app.kubernetes.io/name": RELAY}


def set_up_relay(client: KubernetesClient, settings: KubernetesSettings, token: str) -> None:
    """Writes what is missing or another one; where the cluster is to have none, takes away what was ours.
    What others made under its name stays. Raises KubeError."""
    for wanted in relay_objects(settings, token):
        metadata = wanted["metadata"]
        ref = Ref(BY_KIND[wanted["apiVersion"], wanted["kind"]], metadata["name"], metadata["namespace"])
        try:
            found = client.get(ref)
        except NotFound:
            found = None
        if found is not None and (found["metadata"].get("labels") or {}).get(MANAGED_BY) != "slipway":
            continue
        if settings.relay_image and token:
            client.apply(wanted, force=True)
        elif found is not None and not settings.relay_image:
            client.delete(ref, uid=found["metadata"]["uid"])


def relay_objects(settings: KubernetesSettings, token: str) -> list[Document]:
    """Secret, Service and Deployment, in the order in which they are applied."""
    place = {"name": RELAY, "namespace": settings.namespace, "labels": _LABELS}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": place,
        "type": "Opaque",
        "data": {_KEY: base64.b64encode(token.encode()).decode()},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": place,
        "spec": {
            "selector": _LABELS,
            "ports": [{"name": "http", "port": RELAY_PORT, "targetPort": "http", "protocol": "TCP"}],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": place,
        "spec": {
            "replicas": 1,
            # Two at a time would each say that the other's workers are silent.
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(settings)},
        },
    }
    return [secret, service, deployment]


def _pod(settings: KubernetesSettings) -> Document:
    answers = {"httpGet": {"path": "/healthz", "port": "http"}}
    pod: Document = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10_001,
            "fsGroup": 10_001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "relay",
                "image": settings.relay_image,
                "command": [
                    "python",
                    "-m",
                    "serving.relay",
                    "--host=0.0.0.0",
                    f"--port={RELAY_PORT}",
                    f"--url={settings.control_plane}",
                    f"--token-file={_DIRECTORY}/{_KEY}",
                ],
                "ports": [{"name": "http", "containerPort": RELAY_PORT, "protocol": "TCP"}],
                "readinessProbe": answers | {"periodSeconds": 2, "timeoutSeconds": 2, "failureThreshold": 3},
                "livenessProbe": {
                    "tcpSocket": {"port": "http"},
                    "periodSeconds": 10,
                    "timeoutSeconds": 5,
                    "failureThreshold": 6,
                },
                "resources": {
                    "requests": {"cpu": "50m", "memory": "96Mi"},
                    "limits": {"memory": "256Mi"},
                },
                "securityContext": CONFINED,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "volumeMounts": [{"name": "token", "mountPath": _DIRECTORY, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "token", "secret": {"secretName": RELAY, "defaultMode": 0o440}}],
    }
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return pod
