"""Reports of workers in pods: a Secret with the token of their deployment, and where to send them.

The Secret belongs to the deployment's anchor and goes with it. It is mounted as a file, which the kubelet
keeps current: a token that is renewed needs no new pod.
"""

import base64
from typing import Any

from clusters.backends.base import DeploymentSpec
from clusters.backends.kubernetes.settings import KubernetesSettings

Document = dict[str, Any]

HEARTBEATS = "/api/v1/heartbeats/"
KEY = "token"
DIRECTORY = "/run/slipway"
_VOLUME = "report-token"


def report_secret(spec: DeploymentSpec) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _secret_name(spec)},
        "type": "Opaque",
        "data": {KEY: base64.b64encode(spec.report_token.encode()).decode()},
    }


def reporting(settings: KubernetesSettings) -> dict[str, Any]:
    """Options of the worker's command."""
    if not settings.reports_to:
        return {}
    return {
        "heartbeat_url": f"{settings.reports_to}{HEARTBEATS}",
        "heartbeat_token_file": f"{DIRECTORY}/{KEY}",
    }


def add_report_token(pod: Document, spec: DeploymentSpec) -> None:
    """Optional: no worker waits for it, and none that serves is to end for want of it."""
    secret = {"secretName": _secret_name(spec), "defaultMode": 0o440, "optional": True}
    pod["volumes"].append({"name": _VOLUME, "secret": secret})
    mount = {"name": _VOLUME, "mountPath": DIRECTORY, "readOnly": True}
    pod["containers"][0]["volumeMounts"].append(mount)


def _secret_name(spec: DeploymentSpec) -> str:
    return f"{spec.name}-report"
