"""What a cluster's API cannot or will not do, as a backend's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from clusters.backends.base import CannotRun, ClusterUnreachable
from clusters.backends.node_operations import NotPossible
from kube import errors


@contextmanager
def told() -> Iterator[None]:
    """Anything of the API: the cluster cannot be asked at the moment."""
    try:
        yield
    except errors.KubeError as error:
        raise ClusterUnreachable(str(error)) from None


@contextmanager
def granted(feature: str) -> Iterator[None]:
    """What the cluster does not let us do: its administrator may grant it. Within `told`."""
    try:
        yield
    except errors.NotAllowed as error:
        raise NotPossible(
            f"The cluster does not let Slipway do this: {error} Its administrator grants it with what "
            f"`slipway cluster manifest --features {feature}` prints."
        ) from None


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
