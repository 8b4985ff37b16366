"""What an OpenID Connect issuer publishes, and its token endpoint.

Documents are remembered per process: addresses for an hour, keys until one is missing.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson

from common.errors import SlipwayError
from identity.errors import ProviderUnavailable
from identity.published import MAX_DOCUMENT_BYTES, REMEMBERED_SECONDS, Remembered, body_of, client

KEYS_AT_MOST_EVERY_SECONDS = 30.0
"""A token that names an unknown key has them fetched anew, however many such tokens come."""


class Refused(SlipwayError):
    """The provider no longer accepts the refresh token (RFC 6749, 5.2: `invalid_grant`)."""


_documents, _keys = Remembered(), Remembered()


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
    document = _parsed(body_of(url, accept="application/json"))
    if document is None:
        raise ProviderUnavailable(f"{url} answered no JSON object.")
    return document


def _parsed(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
