"""Signed tokens of issuers that settings name (RFC 7519, with the algorithms of RFC 8725, 3.1)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jwt
from django.db import IntegrityError, transaction

from common import clock
from identity import openid
from identity.errors import BadAssertion
from identity.models import UsedAssertion

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""With a public key only: a token signed with what everybody knows (`none`, HS256 over it) is no token."""
_HASHES = {"256": "sha256", "384": "sha384"}
LEEWAY_SECONDS = 30
MAX_ASSERTION = 16_384


def issuer_of(text: str) -> str:
    """The issuer that an unverified token names. Raises BadAssertion."""
    claims = _unverified(text)
    return str(claims.get("iss", ""))


def _unverified(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_ASSERTION:
        raise BadAssertion("It is too long for a token.")
    try:
        claims: Mapping[str, Any] = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError) as error:
        raise BadAssertion(f"It is no signed token: {error}.") from None
    return claims


def verified(text: str, *, server_url: str, required: tuple[str, ...] = ("exp", "iat")) -> Mapping[str, Any]:
    """The claims, but for the audience, which the caller judges. `server_url`: where its issuer publishes.

    Raises BadAssertion, ProviderUnavailable while the keys cannot be had.
    """
    metadata = openid.discovery(server_url)
    if issuer_of(text) != metadata.get("issuer"):
        raise BadAssertion("Another issuer has signed it.")
    header = jwt.get_unverified_header(text)
    algorithm, kid = str(header.get("alg", "")), str(header.get("kid", ""))
    announced = metadata.get("id_token_signing_alg_values_supported") or ALGORITHMS
    if algorithm not in ALGORITHMS or algorithm not in announced:
        raise BadAssertion(f"It is signed with {algorithm[:20] or 'nothing'}, which is not accepted.")
    why = f"its issuer publishes no key {kid[:100]!r} for {algorithm}"
    for key in openid.keys(server_url, kid):
        if key.get("alg", algorithm) != algorithm:
            continue
        try:
            public = jwt.PyJWK(dict(key), algorithm).key
            claims: Mapping[str, Any] = jwt.decode(
                text,
                public,
                algorithms=[algorithm],
                leeway=LEEWAY_SECONDS,
                options={"verify_aud": False, "require": list(required)},
            )
        except (jwt.InvalidSignatureError, jwt.PyJWKError, jwt.InvalidKeyError) as error:
            why = str(error)
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise BadAssertion(f"It cannot be accepted: {error}.") from None
        else:
            return claims
    raise BadAssertion(f"It cannot be accepted: {why}.")


def id_token(text: str, *, server_url: str, client_id: str, access_token: str = "") -> Mapping[str, Any]:
    """Return the claims of an id_token (OpenID Connect Core 1.0, 3.1.3.7), but for the nonce.

    Raises BadAssertion, ProviderUnavailable.
    """
    claims = verified(text, server_url=server_url, required=("exp", "iat", "sub", "aud"))
    if not is_for(claims, client_id):
        raise BadAssertion("It is for another audience.")
    is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if is_shared else client_id) != client_id:
        raise BadAssertion("It was issued to another client.")
    if access_token and "at_hash" in claims:
        algorithm = jwt.get_unverified_header(text)["alg"]
        digest = hashlib.new(_HASHES.get(algorithm[-3:], "sha512"), access_token.encode()).digest()
        half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
        if not hmac.compare_digest(half.encode(), str(claims["at_hash"]).encode()):
            raise BadAssertion("Its access token is another one.")
    return claims


def is_for(claims: Mapping[str, Any], audience: str) -> bool:
    told = claims.get("aud")
    return audience in (told if isinstance(told, list) else [told])


def use_once(claims: Mapping[str, Any]) -> None:
    """Raises BadAssertion for one that was used already, or that cannot be told from others."""
    jti, issuer = str(claims.get("jti", ""))[:255], str(claims.get("iss", ""))[:500]
    if not jti:
        raise BadAssertion("It has no `jti`, by which a repetition would be noticed.")
    UsedAssertion.objects.filter(expires_at__lt=clock.now()).delete()
    expires_at = datetime.fromtimestamp(int(claims.get("exp") or claims["iat"] + 3_600) + 60, UTC)
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(issuer=issuer, jti=jti, expires_at=expires_at)
    except IntegrityError:
        raise BadAssertion("It was used before.") from None
