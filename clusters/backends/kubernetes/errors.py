"""Errors of a cluster's API, translated into a backend's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusters.backends.base import CannotRun, ClusterRightsMissing, ClusterUnreachable
from clusters.backends.kubernetes.rights import FEATURES, Feature, granted_features
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import OperationUnsupported
from kube import errors
from kube.base import KubernetesClient
from kube.resources import CONFIG_MAPS, Ref


@contextmanager
def translated_errors() -> Iterator[None]:
    """Anything of the API: the cluster cannot be asked at the moment."""
    try:
        yield
    except (errors.ApiForbidden, errors.NotAuthenticated) as error:
        raise ClusterRightsMissing(f"Waiting for rights. {error}") from None
    except errors.KubeError as error:
        raise ClusterUnreachable(str(error)) from None


@contextmanager
def granted(client: KubernetesClient, settings: KubernetesSettings, feature: Feature) -> Iterator[None]:
    """Translate refusals of rights into the feature to be granted. Use it within `translated_errors`.

    A right that was granted before is waited for, as it may be given back.
    """
    try:
        yield
    except errors.ApiForbidden as error:
        if _was_granted(client, settings, feature):
            raise
        raise OperationUnsupported(
            f"The cluster does not let Slipway do this: {error} Its administrator grants it with what "
            f"`slipway cluster manifest --feature {feature}` prints."
        ) from None


def _was_granted(client: KubernetesClient, settings: KubernetesSettings, feature: Feature) -> bool:
    """Whether the manifest says so, which an account without any right cannot read."""
    try:
        return feature in granted_features(client.get(Ref(CONFIG_MAPS, FEATURES, settings.namespace)))
    except errors.ApiForbidden:
        return True
    except errors.KubeError:
        return False


@contextmanager
def refused(deployment: str) -> Iterator[None]:
    """Translate permanent refusals of the API into CannotRun."""
    try:
        yield
    except errors.InvalidObject as error:
        raise CannotRun(f"The cluster does not take {deployment}: {error}") from None
    except errors.NamespaceEnding as error:
        raise CannotRun(f"The namespace of {deployment} is being deleted: {error}") from None
    except errors.NamespaceQuotaExceeded as error:
        raise CannotRun(f"A quota of the namespace leaves no room for {deployment}: {error}") from None
