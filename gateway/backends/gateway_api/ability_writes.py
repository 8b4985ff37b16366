"""Writes of the HTTPRoutes of abilities. They have no fence: an older look changes nothing."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from time import monotonic, sleep

from gateway.backends.gateway_api import abilities, documents
from gateway.backends.gateway_api.conditions import said_of_route
from gateway.backends.gateway_api.documents import Document
from gateway.backends.gateway_api.parent import ParentGateway
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import GatewayUnreachable, InvalidRoute
from gateway.routes import AbilitySpec
from kube.base import KubernetesClient
from kube.errors import AlreadyExists, NotFound, ObjectChanged
from kube.resources import HTTP_ROUTES, Ref

ATTEMPTS = 5


def remove_others(
    client: KubernetesClient, settings: GatewayApiSettings, staying: Sequence[AbilitySpec]
) -> None:
    """Delete the HTTPRoutes of all other abilities."""
    own = f"{documents.MANAGED_BY}=slipway,{abilities.LABEL}"
    present = client.list(HTTP_ROUTES, namespace=settings.namespace, labels=own).items
    for gone in abilities.leavers(present, staying):
        metadata = gone["metadata"]
        with suppress(NotFound, ObjectChanged):
            ref = Ref(HTTP_ROUTES, metadata["name"], metadata["namespace"])
            client.delete(ref, uid=metadata["uid"], version=metadata["resourceVersion"])


def write(client: KubernetesClient, wanted: Document) -> Ref:
    """Make the HTTPRoute be this. Raises GatewayUnreachable, InvalidRoute where it is somebody else's."""
    ref = Ref(HTTP_ROUTES, wanted["metadata"]["name"], wanted["metadata"]["namespace"])
    for _ in range(ATTEMPTS):
        with suppress(AlreadyExists, ObjectChanged):
            try:
                found = client.get(ref)
            except NotFound:
                client.create(wanted)
                return ref
            if not documents.is_own(found):
                raise InvalidRoute(
                    f"The namespace {ref.namespace} has an HTTPRoute {ref.name} that is not Slipway's: "
                    "rename it."
                )
            is_other = "spec" in (patch := documents.change(found, wanted))
            if is_other and abilities.observed_at(found) <= abilities.observed_at(wanted):
                client.patch(ref, patch)
            return ref
    raise GatewayUnreachable(f"The HTTPRoute {ref.name} is changed by others faster than it can be written.")


def await_taken(
    client: KubernetesClient,
    refs: Iterable[Ref],
    parent: Callable[[], ParentGateway],
    settings: GatewayApiSettings,
    *,
    within_seconds: float,
    look_every_seconds: float,
) -> None:
    """Return when the gateway has taken all of them. Raises InvalidRoute, GatewayUnreachable."""
    deadline = monotonic() + within_seconds
    for ref in refs:
        while True:
            gateway = parent()
            said = said_of_route(client.get(ref), gateway.gateway, settings, controller=gateway.controller)
            if said.what == "refused":
                raise InvalidRoute(f"The gateway does not take the HTTPRoute {ref.name}. {said.why}")
            if said.what == "taken":
                break
            if monotonic() >= deadline:
                raise GatewayUnreachable(f"The gateway has not taken the HTTPRoute {ref.name}. {said.why}")
            sleep(look_every_seconds)
