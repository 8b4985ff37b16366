"""Errors of a cluster's API, translated into a gateway's errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import GatewayRightsMissing, GatewayUnreachable, InvalidRoute
from kube import errors


@contextmanager
def translated_errors(route: str = "") -> Iterator[None]:
    """Anything of the API: the gateway cannot be told at the moment; what it will never take is invalid."""
    try:
        yield
    except errors.InvalidObject as error:
        if not route:
            raise GatewayUnreachable(str(error)) from None
        raise InvalidRoute(f"The cluster does not take the route {route}: {error}") from None
    except errors.NamespaceEnding as error:
        raise InvalidRoute(f"The namespace of the route {route} is being deleted: {error}") from None
    except errors.NotServed:
        raise GatewayUnreachable(
            "The cluster has no Gateway API (gateway.networking.k8s.io/v1): install it, or choose another "
            "kind of gateway."
        ) from None
    except (errors.ApiForbidden, errors.NotAuthenticated) as error:
        raise GatewayRightsMissing(f"Waiting for rights. {error}") from None
    except errors.KubeError as error:
        raise GatewayUnreachable(str(error)) from None
