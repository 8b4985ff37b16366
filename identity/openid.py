"""What an OpenID Connect issuer publishes, and its token endpoint: over `common.outbound`.

Issuers are named by settings, so that they may lie in private networks; what they lead to on other hosts
must be public. Documents are remembered per process: addresses for an hour, keys until one is missing.
"""

import base64
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson
from django.conf import settings

from common.errors import SlipwayError
from common.outbound import faults
from common.outbound.addresses import Address, is_public, true_address
from common.outbound.client import OutboundClient, whole_body
from common.outbound.transport import PORTS
from identity.errors import ProviderUnavailable

MAX_DOCUMENT_BYTES = 1024 * 1024
REMEMBERED_SECONDS = 3_600.0
KEYS_AT_MOST_EVERY_SECONDS = 30.0
"""A token that names an unknown key has them fetched anew, however many such tokens come."""


class Refused(SlipwayError):
    """The provider no longer accepts the refresh token (RFC 6749, 5.2: `invalid_grant`)."""


def issuers() -> frozenset[str]:
    """Those that settings name."""
    return frozenset(filter(None, (settings.SLIPWAY_OIDC_SERVER_URL, *settings.SLIPWAY_CI_ISSUERS)))


def _judge(host: str, port: int, addresses: Sequence[Address]) -> None:
    if f"{host}:{port}" in {_place(url) for url in issuers()}:
        return
    if not all(is_public(true_address(address)) for address in addresses):
        raise faults.Forbidden(
            f"{host}:{port} lies in a private network, and no setting names it as an issuer."
        )


def _place(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"


_client = OutboundClient(_judge)


class _Remembered:
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


_documents, _keys = _Remembered(), _Remembered()


def forget() -> None:
    """What this process remembers of issuers."""
    _documents.clear()
    _keys.clear()


def discovery(issuer: str) -> Mapping[str, Any]:
    """What the issuer publishes (OpenID Connect Discovery 1.0). Raises ProviderUnavailable."""
    url = issuer if "/.well-known/" in issuer else f"{issuer}/.well-known/openid-configuration"
    found: Mapping[str, Any] = _documents.get(url, lambda: _document(url), seconds=REMEMBERED_SECONDS)
    return found


def keys(issuer: str, kid: str) -> Sequence[Mapping[str, Any]]:
    """The issuer's signing keys of that name; all of them for a token that names none.

    A name that is not among them has the keys fetched anew: they are rotated. Raises ProviderUnavailable.
    """
    url = str(discovery(issuer).get("jwks_uri", ""))
    for seconds in (REMEMBERED_SECONDS, KEYS_AT_MOST_EVERY_SECONDS):
        published = _keys.get(url, lambda: _document(url), seconds=seconds).get("keys")
        usable = [one for one in published or () if isinstance(one, dict) and one.get("use", "sig") == "sig"]
        named = [one for one in usable if not kid or one.get("kid") == kid]
        if named:
            return named
    return []


def refresh(issuer: str, *, client_id: str, secret: str, refresh_token: str) -> Mapping[str, Any]:
    """The answer to a refresh token: a new id_token, perhaps another refresh token.

    Raises Refused, and ProviderUnavailable for whatever is not the person's fault.
    """
    known = discovery(issuer)
    url = str(known.get("token_endpoint", ""))
    body = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    methods = known.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    secrets = {}
    if "client_secret_post" in methods:
        body |= {"client_id": client_id, "client_secret": secret}
    else:
        pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
        secrets["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    content = urlencode(body).encode()
    headers["Content-Length"] = str(len(content))
    try:
        response, answer = _client.send(
            "POST",
            url,
            secret_headers=secrets,
            headers=headers,
            content=content,
            limit_bytes=MAX_DOCUMENT_BYTES,
        )
    except SlipwayError as error:
        raise ProviderUnavailable(str(error)) from error
    told = _parsed(answer)
    if response.status_code == 200 and told is not None:
        return told
    fault = str((told or {}).get("error", ""))[:100]
    if response.status_code in (400, 401, 403) and fault == "invalid_grant":
        raise Refused(str((told or {}).get("error_description") or fault)[:300])
    raise ProviderUnavailable(
        f"{urlsplit(url).hostname} answered {response.status_code} {fault} to a refresh token."
    )


def _document(url: str) -> Mapping[str, Any]:
    if not url:
        raise ProviderUnavailable("The identity provider does not publish the address of its keys.")
    try:
        with _client.get(url, secret_headers={}, headers={"Accept": "application/json"}) as answers:
            response = answers[-1]
            body = whole_body(response, limit_bytes=MAX_DOCUMENT_BYTES, limit_seconds=20)
    except SlipwayError as error:
        raise ProviderUnavailable(str(error)) from error
    document = _parsed(body)
    if response.status_code != 200 or document is None:
        raise ProviderUnavailable(f"{url} answered {response.status_code} and no JSON object.")
    return document


def _parsed(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
