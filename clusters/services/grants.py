"""The rights that a cluster's administrator has to grant before it is added."""

from collections.abc import Iterable

from clusters.backends.base import Misconfigured
from clusters.backends.kubernetes.granting import manifest_text
from common.errors import Invalid


def granted(*, namespace: str, features: Iterable[str] | None = None) -> str:
    """YAML with the least RBAC for these features of a Kubernetes cluster (None: all). Raises Invalid."""
    try:
        return manifest_text(namespace=namespace, features=features)
    except Misconfigured as error:
        raise Invalid(fields={error.about: [str(error)]}) from None
