"""Templates of claims by which pods get a part of a GPU (resource.k8s.io/v1)."""

from clusters.backends.base import DeploymentSpec
from clusters.backends.gpu_names import MIG_CLASS, profile_of
from kube.base import Object
from kube.resources import RESOURCE_CLAIM_TEMPLATES

DRIVER = "gpu.nvidia.com"
REQUEST = "gpu"
"""Name of the claim in a pod, and of its one request."""


def template_name(spec: DeploymentSpec) -> str:
    """Return the name of a deployment's template: one for each profile, for a template never changes."""
    profile = profile_of(spec.resources.gpu_resource).replace(".", "").replace("+", "-")
    return f"{spec.name}-{profile}"


def claim_template(profile: str, *, uuid: str = "") -> Object:
    """Return a template of claims for one MIG instance of the profile."""
    wanted = f"device.attributes['{DRIVER}'].profile == '{profile}'"
    if uuid:
        wanted += f" && device.attributes['{DRIVER}'].parentUUID == '{uuid}'"
    exactly = {"deviceClassName": MIG_CLASS.rstrip("/"), "selectors": [{"cel": {"expression": wanted}}]}
    return {
        "apiVersion": RESOURCE_CLAIM_TEMPLATES.api_version,
        "kind": RESOURCE_CLAIM_TEMPLATES.kind,
        "metadata": {},
        "spec": {"spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}},
    }
