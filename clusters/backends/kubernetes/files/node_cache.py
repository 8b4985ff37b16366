"""A directory of each machine, filled and verified by our init container, shared by all pods there."""

from clusters.backends.base import DeploymentSpec
from clusters.backends.kubernetes.files.base import (
    CONFINED,
    MODELS,
    FilesMount,
    directory_of,
    fetch_command,
    fetch_image,
    fetch_token,
)
from clusters.backends.kubernetes.pods import FILES_CONTAINER
from clusters.backends.kubernetes.settings import KubernetesSettings


class NodeCacheDelivery:
    """Keeps files in a directory of each machine; `serving.fetch` decides there what to evict when it is
    full.
    """

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings

    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        settings = self._settings
        fetch = {
            "name": FILES_CONTAINER,
            "image": fetch_image(spec, settings),
            "command": fetch_command(spec, settings, cache=MODELS, most_gib=settings.node_cache_gib),
            "env": [fetch_token(settings)],
            # A directory of the machine belongs to its root.
            "securityContext": CONFINED | {"runAsUser": 0, "runAsNonRoot": False},
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "models", "mountPath": MODELS}],
        }
        return FilesMount(
            volume={"hostPath": {"path": settings.node_cache, "type": "DirectoryOrCreate"}},
            sub_path=directory_of(spec),
            containers=(fetch,),
            is_per_machine=True,
        )
