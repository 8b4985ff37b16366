"""What an OpenID Connect issuer publishes, and its token endpoint.

Documents are remembered per process: addresses for an hour, keys until one is missing.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson
from django.conf import settings

from common.errors import SlipwayError
from identity.errors import ProviderUnavailable
from identity.published import (
    MAX_DOCUMENT_BYTES,
    REMEMBERED_SECONDS,
    CachedDocuments,
    body_of,
    check_encrypted,
    client,
    endpoints_of,
    trust_endpoints,
)

KEYS_AT_MOST_EVERY_SECONDS = 30.0
"""A token that names an unknown key has them fetched anew, however many such tokens come."""


class GrantRefused(SlipwayError):
    """The provider does not accept the refresh token or the code (RFC 6749, 5.2: `invalid_grant`)."""


_documents, _keys = CachedDocuments(), CachedDocuments()


def forget() -> None:
    """Memory of this process for what issuers publish."""
    _documents.clear()
    _keys.clear()


def discovery(issuer: str) -> Mapping[str, Any]:
    """Return the issuer's metadata (OpenID Connect Discovery 1.0). Raises ProviderUnavailable."""
    url = issuer if "/.well-known/" in issuer else f"{issuer}/.well-known/openid-configuration"
    document: Mapping[str, Any] = _documents.get(
        url, lambda: _metadata(url, issuer), seconds=REMEMBERED_SECONDS
    )
    return document


def _metadata(url: str, issuer: str) -> Mapping[str, Any]:
    document = _document(url)
    for address in (str(document.get("issuer", "")), *endpoints_of(document)):
        check_encrypted(address)
    if issuer == settings.SLIPWAY_OIDC_SERVER_URL:
        trust_endpoints(document)
    return document


def keys(issuer: str, kid: str) -> Iterator[Mapping[str, Any]]:
    """Yield the issuer's signing keys of that name; all of them for a token that names none.

    Whoever asks for more than are remembered has the keys fetched anew, and gets those that are new: keys
    are rotated, some providers keep the name. Raises ProviderUnavailable.
    """
    url = str(discovery(issuer).get("jwks_uri", ""))
    tried: list[Mapping[str, Any]] = []
    for seconds in (REMEMBERED_SECONDS, KEYS_AT_MOST_EVERY_SECONDS):
        published = _keys.get(url, lambda: _document(url), seconds=seconds).get("keys")
        for key in published if isinstance(published, list) else ():
            is_usable = isinstance(key, dict) and key.get("use", "sig") == "sig"
            if is_usable and (not kid or key.get("kid") == kid) and key not in tried:
                tried.append(key)
                yield key


def userinfo(issuer: str, access_token: str) -> Mapping[str, Any]:
    """Return the claims about the token's person. Raises ProviderUnavailable."""
    url = str(discovery(issuer).get("userinfo_endpoint", ""))
    return _document(url, {"Authorization": f"Bearer {access_token}"}) if url else {}


def ask_for_tokens(
    issuer: str, *, client_id: str, secret: str, grant: Mapping[str, str]
) -> Mapping[str, Any]:
    """Return the token endpoint's answer to a refresh token or to a code (RFC 6749, 4.1.3 and 6).

    Raises GrantRefused, and ProviderUnavailable for whatever is not the person's fault.
    """
    known = discovery(issuer)
    url = str(known.get("token_endpoint", ""))
    body = dict(grant)
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
        response, answer = client.send(
            "POST",
            url,
            secret_headers=secrets,
            headers=headers,
            content=content,
            limit_bytes=MAX_DOCUMENT_BYTES,
        )
    except SlipwayError as error:
        raise ProviderUnavailable(str(error)) from error
    tokens = _parsed(answer)
    if response.status_code == 200 and tokens is not None:
        return tokens
    fault = str((tokens or {}).get("error", ""))[:100]
    if response.status_code in (400, 401, 403) and fault == "invalid_grant":
        raise GrantRefused(str((tokens or {}).get("error_description") or fault)[:300])
    raise ProviderUnavailable(
        f"{urlsplit(url).hostname} answered {response.status_code} {fault} to {grant['grant_type']}."
    )


def _document(url: str, secret_headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
    if not url:
        raise ProviderUnavailable("The identity provider does not publish the address of its keys.")
    document = _parsed(body_of(url, accept="application/json", secret_headers=secret_headers))
    if document is None:
        raise ProviderUnavailable(f"{url} answered no JSON object.")
    return document


def _parsed(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
