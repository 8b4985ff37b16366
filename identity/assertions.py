"""Signed tokens of issuers that settings name (RFC 7519, with the algorithms of RFC 8725, 3.1)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jwt
from django.db import IntegrityError, transaction
from django.utils import timezone

from identity import openid
from identity.errors import BadAssertion
from identity.models import UsedAssertion

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""With a public key only: a token signed with what everybody knows (`none`, HS256 over it) is no token."""
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
    if issuer_of(text) != openid.discovery(server_url).get("issuer"):
        raise BadAssertion("Another issuer has signed it.")
    header = jwt.get_unverified_header(text)
    algorithm, kid = str(header.get("alg", "")), str(header.get("kid", ""))
    if algorithm not in ALGORITHMS:
        raise BadAssertion(f"It is signed with {algorithm or 'nothing'}, which is not accepted.")
    found = openid.keys(server_url, kid)
    if not found:
        raise BadAssertion(f"Its issuer publishes no key {kid}.")
    why = ""
    for key in found:
        try:
            public = jwt.PyJWK(dict(key), algorithm).key
            claims: Mapping[str, Any] = jwt.decode(
                text,
                public,
                algorithms=[algorithm],
                leeway=LEEWAY_SECONDS,
                options={"verify_aud": False, "require": list(required)},
            )
        except (jwt.PyJWTError, ValueError) as error:
            why = str(error)
        else:
            return claims
    raise BadAssertion(f"It cannot be accepted: {why}.")


def is_for(claims: Mapping[str, Any], audience: str) -> bool:
    told = claims.get("aud")
    return audience in (told if isinstance(told, list) else [told])


def use_once(claims: Mapping[str, Any]) -> None:
    """Raises BadAssertion for one that was used already, or that cannot be told from others."""
    jti, issuer = str(claims.get("jti", ""))[:255], str(claims.get("iss", ""))[:500]
    if not jti:
        raise BadAssertion("It has no `jti`, by which a repetition would be noticed.")
    UsedAssertion.objects.filter(expires_at__lt=timezone.now()).delete()
    expires_at = datetime.fromtimestamp(int(claims.get("exp") or claims["iat"] + 3_600) + 60, UTC)
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(issuer=issuer, jti=jti, expires_at=expires_at)
    except IntegrityError:
        raise BadAssertion("It was used before.") from None
