"""The interface of all ways to deliver a version's files to pods."""

from dataclasses import dataclass
from typing import Any, Protocol

from clusters.backends.base import CannotRun, DeploymentSpec
from clusters.backends.kubernetes.settings import KubernetesSettings

Document = dict[str, Any]

MODELS = "/models"
"""Where containers find the volume."""
CONFINED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesMount:
    """The parts of a pod by which its worker finds the files."""

    volume: Document
    """Without its name."""
    sub_path: str = ""
    """Of the version's directory on the volume; empty: the volume is it."""
    containers: tuple[Document, ...] = ()
    """Init containers that bring what is missing."""
    is_per_machine: bool = False
    """Whether each machine has its own copy, which can be brought to it before a worker comes."""


class FileDelivery(Protocol):
    def mount(self, spec: DeploymentSpec, *, namespace: str) -> FilesMount:
        """Makes in the cluster what has to be there before pods are, and says what they need.

        Idempotent: all that is made has the version's digest in its name, so that whoever comes late makes
        the same. Raises FilesPending until all machines can read them, CannotRun, KubeError.
        """


def directory_of(spec: DeploymentSpec) -> str:
    """Return the directory of the version's files on a volume that `serving.fetch` fills."""
    return f"versions/{spec.version.digest or spec.version.id}"


def fetch_image(spec: DeploymentSpec, settings: KubernetesSettings) -> str:
    """Return the image that runs `serving.fetch`: the worker's, unless it is a third party's. Raises
    CannotRun.
    """
    if spec.server is None:
        return spec.image
    if not settings.jobs_image:
        raise CannotRun(
            f"{spec.name} runs a server of another maker, whose image cannot fetch model files. Name the "
            "worker's image in jobs_image of the cluster's settings or bring files another way (model_files)."
        )
    return settings.jobs_image


def fetch_command(
    spec: DeploymentSpec, settings: KubernetesSettings, *, cache: str, most_gib: int = 0
) -> list[str]:
    return [
        "python", "-m", "serving.fetch", f"--url={settings.store_url.rstrip('/')}",
        f"--version-id={spec.version.id}", f"--digest={spec.version.digest}", f"--cache={cache}",
        f"--most-gib={most_gib}",
    ]  # fmt: skip


def fetch_token(settings: KubernetesSettings) -> Document:
    """Return the token of the store as a container's environment variable."""
    secret = {"name": settings.store_secret, "key": "token"}
    return {"name": "SLIPWAY_STORE_TOKEN", "valueFrom": {"secretKeyRef": secret}}
