"""A volume claim of the cluster's own, on which somebody keeps the files of the store."""

from clusters.backends.base import DeploymentSpec
from clusters.backends.kubernetes.files.base import FilesMount, directory_of
from clusters.backends.kubernetes.settings import KubernetesSettings


class ExistingClaim:
    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings

    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        claim = {"claimName": self._settings.model_claim, "readOnly": True}
        return FilesMount(volume={"persistentVolumeClaim": claim}, sub_path=directory_of(spec))
