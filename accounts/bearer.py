"""The token that a request brings, for addresses that are not REST framework's."""

from django.db import DatabaseError
from django.http import HttpRequest

from accounts.errors import BadToken
from accounts.services.tokens import use_token
from accounts.states import Right


def has_right(request: HttpRequest, right: Right) -> bool:
    """Whether it brings a token that works and has the right; while the database is away none does."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return False
    try:
        return right in use_token(text.strip()).rights
    except (BadToken, DatabaseError):
        return False
