"""An OCI artifact that the kubelet pulls and mounts (image volumes, KEP-4639): named for each version."""

from collections.abc import Collection

from clusters.backends.base import CannotRun, DeploymentSpec
from clusters.backends.kubernetes.files.base import FilesMount
from clusters.backends.kubernetes.settings import KubernetesSettings


class ImageVolume:
    """Mounts an image by digest. Whoever named it vouches that it holds this version."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._settings = settings

    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        reference = self._settings.model_images.get(spec.version.label)
        if reference is None:
            raise CannotRun(
                f"The cluster mounts model files as images, and names none for {spec.version.label}: add it "
                "to model_images in its settings."
            )
        return FilesMount(
            volume={"image": {"reference": reference, "pullPolicy": "IfNotPresent"}},
            sub_path=self._settings.model_image_path.strip("/"),
            is_per_machine=True,
        )

    def remove_unused(self, needed: Collection[str]) -> None:
        """Kubelets collect images themselves."""
