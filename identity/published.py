"""What providers publish, fetched over `common.outbound` and remembered per process.

Providers are named by settings, so that they may lie in private networks; what they lead to on other
hosts must be public.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from common.errors import SlipwayError
from common.outbound import faults
from common.outbound.addresses import Address, is_http_of_this_machine, is_public, true_address
from common.outbound.client import OutboundClient, whole_body
from common.outbound.transport import PORTS
from identity.errors import ProviderUnavailable

MAX_DOCUMENT_BYTES = 1024 * 1024
REMEMBERED_SECONDS = 3_600.0


def named() -> frozenset[str]:
    """Addresses of providers that settings name."""
    metadata = settings.SLIPWAY_SAML_METADATA
    return frozenset(
        filter(
            None,
            (
                settings.SLIPWAY_OIDC_SERVER_URL,
                *settings.SLIPWAY_CI_ISSUERS,
                metadata if metadata.startswith("http") else "",
            ),
        )
    )


_endpoints: set[str] = set()


def trust_endpoints(document: Mapping[str, Any]) -> None:
    """Let the sign-on provider's own endpoints lie in private networks, on other hosts than itself."""
    _endpoints.update(_place(url) for url in endpoints_of(document))


def endpoints_of(document: Mapping[str, Any]) -> list[str]:
    """Return the addresses in an issuer's metadata that are asked or that people are sent to."""
    return [
        url
        for name, url in document.items()
        if (name == "jwks_uri" or name.endswith("_endpoint")) and isinstance(url, str) and url
    ]


def check_encrypted(url: str) -> None:
    """Raise ProviderUnavailable unless the address is https, or of this machine where a setting allows it."""
    if not (
        url.startswith("https://") or (settings.SLIPWAY_LOOPBACK_PROVIDERS and is_http_of_this_machine(url))
    ):
        raise ProviderUnavailable(
            f"{url[:200]!r} is no https address: the provider cannot be trusted over it."
        )


def _judge(host: str, port: int, addresses: Sequence[Address]) -> None:
    if f"{host}:{port}" in _endpoints.union(_place(url) for url in named()):
        return
    if not all(is_public(true_address(address)) for address in addresses):
        raise faults.Forbidden(
            f"{host}:{port} lies in a private network, and no setting names it as an issuer."
        )


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"


client = OutboundClient(_judge)


def body_of(url: str, *, accept: str, secret_headers: Mapping[str, str] | None = None) -> bytes:
    """Raises ProviderUnavailable, also for an answer that is not 200."""
    check_encrypted(url)
    headers = {"Accept": accept}
    try:
        with client.get(url, secret_headers=secret_headers or {}, headers=headers) as answers:
            response = answers[-1]
            body = whole_body(response, limit_bytes=MAX_DOCUMENT_BYTES, limit_seconds=20)
    except SlipwayError as error:
        raise ProviderUnavailable(str(error)) from error
    if response.status_code != 200:
        raise ProviderUnavailable(f"{url} answered {response.status_code}.")
    return body


class CachedDocuments:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, Any]] = {}

    def get(self, key: str, read: Callable[[], Any], *, seconds: float) -> Any:
        with self._lock:
            found = self._found.get(key)
        if found is not None and time.monotonic() < found[0] + seconds:
            return found[1]
        value = read()
        with self._lock:
            self._found[key] = (time.monotonic(), value)
        return value

    def clear(self) -> None:
        with self._lock:
            self._found.clear()
