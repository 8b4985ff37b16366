"""The text of an API token: `slp_<prefix>_<secret>`. The prefix finds the row, a hash proves the secret."""

import hashlib
import secrets
import string
from typing import NamedTuple

from django.utils.crypto import constant_time_compare

_PREFIX_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits


class ApiKey(NamedTuple):
    prefix: str
    """10 characters, about 51 bits: public, unique."""
    secret: str
    """43 characters, about 256 bits: too many to guess, so that a plain hash protects it."""

    @property
    def text(self) -> str:
        return f"slp_{self.prefix}_{self.secret}"

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def proves(self, secret_hash: str) -> bool:
        return constant_time_compare(self.hash, secret_hash)


def new_key() -> ApiKey:
    return ApiKey(_pick(_PREFIX_ALPHABET, 10), _pick(_SECRET_ALPHABET, 43))


def parse(text: str) -> ApiKey | None:
    """Return the key in a token's text, or None if it cannot be one of ours."""
    head, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if head != "slp" or len(prefix) != 10 or len(secret) != 43 or not text.isascii():
        return None
    return ApiKey(prefix, secret)


def _pick(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
