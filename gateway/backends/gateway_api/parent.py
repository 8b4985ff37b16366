"""The Gateway that routes attach to, and what its class can."""

from dataclasses import dataclass

from gateway.backends.gateway_api import features
from gateway.backends.gateway_api.documents import Document
from gateway.backends.gateway_api.settings import GatewayApiSettings
from gateway.errors import GatewayUnreachable
from kube.base import KubernetesClient
from kube.errors import ApiForbidden, NotFound
from kube.resources import GATEWAY_CLASSES, GATEWAYS, Ref

DEFAULT_PORTS = {"HTTP": 80, "HTTPS": 443}


@dataclass(frozen=True, slots=True)
class ParentGateway:
    gateway: Document
    class_name: str
    controller: str
    """Whose word on routes counts; empty: not known, so anybody's."""
    features: frozenset[str] | None
    """With those that are assumed; None: they may not be read, and none is assumed."""
    said: frozenset[str] | None
    """By the class itself; None: they may not be read."""
    timeout: str
    """For our rules; empty: this class cannot set one."""

    @property
    def lacking(self) -> str:
        """Why it can have no route of ours; empty: it can."""
        return features.lacking(self.class_name, self.features)

    def refuse_lacking(self) -> None:
        """Raises InvalidRoute."""
        features.refuse_lacking(self.class_name, self.features)


def address_of(gateway: Document, settings: GatewayApiSettings) -> str:
    """Return where it says that clients reach it, as a URL: its first address, and the port of the listener.

    Empty: it has none yet. The listener's hostname is not in it: `hostnames` of the settings say that.
    """
    addresses = (gateway.get("status") or {}).get("addresses") or ()
    listeners = [
        one
        for one in gateway["spec"].get("listeners") or ()
        if one.get("protocol") in DEFAULT_PORTS and settings.section in ("", one.get("name"))
    ]
    if not addresses or not listeners:
        return ""
    host, listener = str(addresses[0]["value"]), listeners[0]
    protocol, port = listener["protocol"], listener["port"]
    named = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.scheme == "https" else protocol.lower()
    return f"{scheme}://{named}" + ("" if port == DEFAULT_PORTS[protocol] else f":{port}")


def parent_of(client: KubernetesClient, settings: GatewayApiSettings) -> ParentGateway:
    """Read the Gateway and its class. Raises GatewayUnreachable when there is no such Gateway, and errors of
    `kube`.
    """
    ref = Ref(GATEWAYS, settings.gateway, settings.parent_namespace)
    try:
        gateway = client.get(ref)
    except NotFound:
        raise GatewayUnreachable(
            f"The cluster has no Gateway {ref.namespace}/{ref.name}: make it, or fix the settings "
            "gateway and gateway_namespace."
        ) from None
    class_name = str(gateway["spec"]["gatewayClassName"])
    known: frozenset[str] | None = None
    controller = ""
    try:
        found = client.get(Ref(GATEWAY_CLASSES, class_name))
        known, controller = features.features_of(found), str(found["spec"].get("controllerName", ""))
    except NotFound:
        raise GatewayUnreachable(
            f"The Gateway {ref.namespace}/{ref.name} is of the class {class_name}, which does not exist."
        ) from None
    except ApiForbidden:
        pass
    said = known
    if settings.assume_features:
        known = (known or frozenset()) | set(settings.assume_features)
    timeout = settings.request_timeout if known and features.TIMEOUT in known else ""
    return ParentGateway(gateway, class_name, controller, known, said, timeout)
