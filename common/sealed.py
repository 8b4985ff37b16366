"""Secrets at rest: what Slipway must be able to read again (a hub's token, a webhook's key) and nobody else.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key derived by HKDF (RFC 5869)
from SECRET_KEY, one key per purpose. After SECRET_KEY was replaced, SECRET_KEY_FALLBACKS still open what the
old one sealed. What is only compared, such as our own API tokens, is hashed instead (`accounts.models`).
"""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class CannotUnseal(Exception):
    """It was sealed under another SECRET_KEY or for another purpose, or it is damaged."""


def seal(secret: str, *, purpose: str) -> str:
    """ASCII text that only `unseal` with the same purpose opens; each time another one."""
    return _box(purpose).encrypt(secret.encode()).decode()


def unseal(sealed: str, *, purpose: str) -> str:
    """Raises CannotUnseal, whose message says what to do."""
    try:
        return _box(purpose).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise CannotUnseal(
            "The stored secret cannot be read: SECRET_KEY is not the one that it was stored under. Put the "
            "old key back (or into its fallbacks), or store the secret anew."
        ) from None


def _box(purpose: str) -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_derived(key, purpose)) for key in keys])


def _derived(key: str, purpose: str) -> bytes:
    derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"slipway:{purpose}".encode())
    return urlsafe_b64encode(derive.derive(key.encode()))
