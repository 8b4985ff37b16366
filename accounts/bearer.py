"""The token that a request brings: one door for REST, sockets, SCIM, agents of machines and probes."""

from django.db import Error
from django.http import HttpRequest

from accounts.errors import InvalidToken
from accounts.failed_tokens import TooManyFailedTokens, note_failed_token
from accounts.models import ApiToken
from accounts.services.tokens import use_token
from accounts.states import Right

CHALLENGE = 'Bearer realm="slipway"'
"""Of `WWW-Authenticate`."""


def bearer_text(authorization: str) -> str | None:
    """Return the token in the header, or None."""
    scheme, _, text = authorization.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


def bearer_token(text: str, *, address: str) -> ApiToken:
    """Return the token behind the text. Raises InvalidToken, or TooManyFailedTokens for one of many."""
    try:
        return use_token(text)
    except InvalidToken:
        note_failed_token(address)
        raise


def has_right(request: HttpRequest, right: Right) -> bool:
    """Whether it brings a token that works and has the right; while the database is away none does."""
    try:
        return brings_right(request, right)
    except Error:
        return False


def brings_right(request: HttpRequest, right: Right) -> bool:
    """Return whether the request's token or session has the right. Raises django.db.Error while the
    database is away.
    """
    text = bearer_text(request.headers.get("Authorization", ""))
    if text is None:
        return False
    try:
        return right in bearer_token(text, address=request.META.get("REMOTE_ADDR", "")).rights
    except (InvalidToken, TooManyFailedTokens):
        return False
