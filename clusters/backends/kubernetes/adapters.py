"""LoRA adapters of workers in pods: a ConfigMap names them, and a container beside the worker fetches them.

A change of the ConfigMap comes to running pods by itself, so that none is replaced. The container alone has
the token for the store. It writes the file that the worker follows (`serving.adapters`) on the pod's volume.
"""

import json
from typing import Any

from clusters.backends.base import DeploymentSpec
from clusters.backends.kubernetes.files.base import CONFINED, fetch_token
from clusters.backends.kubernetes.pods import ADAPTERS_CONTAINER
from clusters.backends.kubernetes.settings import KubernetesSettings, fetches_from_us
from serving.engines.registry import ENGINES
from serving.protocol import ADAPTERS_FILE

Document = dict[str, Any]

DIRECTORY = "/adapters"
"""In both containers: the file names directories below it."""
_WANTED = "/run/slipway-adapters"
_LISTING = "wanted-adapters"


def follows_adapters(spec: DeploymentSpec, settings: KubernetesSettings) -> bool:
    """Whether its pods load adapters of the registry while they run: from their start where the engine's
    settings ask for it, and else from the first adapter on, for which they are replaced once."""
    engine = ENGINES[spec.engine]
    is_able = (
        fetches_from_us(settings.model_files, settings.store_url)
        and spec.server is None
        and spec.nodes == 1
        and engine.is_ready_for_adapters(spec.settings)
    )
    return is_able and (bool(spec.adapters) or not engine.has_own_adapters)


def adapters_listing(spec: DeploymentSpec) -> Document:
    wanted = {
        name: {"version": one.label, "id": one.id, "digest": one.digest}
        for name, one in sorted(spec.adapters.items())
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _listing_name(spec)},
        "data": {ADAPTERS_FILE: json.dumps(wanted)},
    }


def add_adapters(pod: Document, spec: DeploymentSpec, settings: KubernetesSettings) -> None:
    """Optional: a worker that finds no adapters serves without them."""
    listing = {"name": _listing_name(spec), "optional": True}
    pod["volumes"] += [{"name": _LISTING, "configMap": listing}, {"name": "adapters", "emptyDir": {}}]
    mount = {"name": "adapters", "mountPath": DIRECTORY}
    pod["containers"][0]["volumeMounts"].append(mount | {"readOnly": True})
    pod["containers"].append(
        {
            "name": ADAPTERS_CONTAINER,
            "image": spec.image,
            "command": [
                "python", "-m", "serving.fetch.adapters", f"--url={settings.store_url.rstrip('/')}",
                f"--wanted={_WANTED}/{ADAPTERS_FILE}", f"--into={DIRECTORY}",
            ],
            "env": [fetch_token(settings)],
            "securityContext": CONFINED,
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [mount, {"name": _LISTING, "mountPath": _WANTED, "readOnly": True}],
        }
    )  # fmt: skip


def _listing_name(spec: DeploymentSpec) -> str:
    """No name of a deployment has a dot: it is the name of no anchor."""
    return f"{spec.name}.adapters"
