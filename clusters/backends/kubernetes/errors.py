"""What a cluster's API cannot or will not do, as a backend's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusters.backends.base import CannotRun, ClusterUnreachable, RightsMissing
from clusters.backends.kubernetes.rights import FEATURES, Feature, granted_features
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import NotPossible
from kube import errors
from kube.base import Client
from kube.resources import CONFIG_MAPS, Ref


@contextmanager
def told() -> Iterator[None]:
    """Anything of the API: the cluster cannot be asked at the moment."""
    try:
        yield
    except (errors.NotAllowed, errors.NotAuthenticated) as error:
        raise RightsMissing(f"Waiting for rights. {error}") from None
    except errors.KubeError as error:
        raise ClusterUnreachable(str(error)) from None


@contextmanager
def granted(client: Client, settings: KubernetesSettings, feature: Feature) -> Iterator[None]:
    """What the cluster does not let us do: its administrator may grant it. Within `told`.

    A right that was granted is waited for: who took it away may give it back.
    """
    try:
        yield
    except errors.NotAllowed as error:
        if _was_granted(client, settings, feature):
            raise
        raise NotPossible(
            f"The cluster does not let Slipway do this: {error} Its administrator grants it with what "
            f"`slipway cluster manifest --feature {feature}` prints."
        ) from None


def _was_granted(client: Client, settings: KubernetesSettings, feature: Feature) -> bool:
    """Whether the manifest says so, which an account without any right cannot read."""
    try:
        return feature in granted_features(client.get(Ref(CONFIG_MAPS, FEATURES, settings.namespace)))
    except errors.NotAllowed:
        return True
    except errors.KubeError:
        return False


@contextmanager
def refused(deployment: str) -> Iterator[None]:
    """What the cluster will never take as it is."""
    try:
        yield
    except errors.Invalid as error:
        raise CannotRun(f"The cluster does not take {deployment}: {error}") from None
    except errors.NamespaceEnding as error:
        raise CannotRun(f"The namespace of {deployment} is being deleted: {error}") from None
    except errors.QuotaExceeded as error:
        raise CannotRun(f"A quota of the namespace leaves no room for {deployment}: {error}") from None
