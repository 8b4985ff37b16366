"""Secrets at rest: what Slipway must be able to read again (a hub's token, a webhook's key) and nobody else.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key derived by HKDF (RFC 5869)
from SECRET_KEY, one key per purpose; before it stands which SECRET_KEY that was. After SECRET_KEY was
replaced, SECRET_KEY_FALLBACKS still open what the old one sealed, and `common.resealing` seals it anew. What
is only compared, such as our own API tokens, is hashed instead (`accounts.models`).
"""

from base64 import urlsafe_b64encode

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


class CannotUnseal(Exception):
    """The text was sealed under another SECRET_KEY or for another purpose, or it is damaged."""


def seal(secret: str, *, purpose: str) -> str:
    """ASCII text that only `unseal` with the same purpose opens; each time another one."""
    key = settings.SECRET_KEY
    return f"{_id_of(key)}:{_box(key, purpose).encrypt(secret.encode()).decode()}"


def unseal(sealed: str, *, purpose: str) -> str:
    """Raises CannotUnseal, whose message says what to do."""
    key_id, _, box = sealed.partition(":")
    key = next((one for one in _keys() if _id_of(one) == key_id), None)
    if key is None:
        raise CannotUnseal(
            f"The stored secret cannot be read: it was stored under another SECRET_KEY ({key_id[:12]}). Put "
            "that one back (or into SLIPWAY_SECRET_KEY_FALLBACKS), or store the secret anew."
        )
    try:
        return _box(key, purpose).decrypt(box.encode()).decode()
    except InvalidToken:
        raise CannotUnseal("The stored secret is damaged, or of another purpose: store it anew.") from None


def key_ids() -> list[str]:
    """12 hexadecimal digits for each key that opens what is sealed, the one that seals first; they do not
    give it away."""
    return [_id_of(key) for key in _keys()]


def _id_of(key: str) -> str:
    return _derived(key, "key id").hex()[:12]


def _keys() -> list[str]:
    return [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]


def _box(key: str, purpose: str) -> Fernet:
    return Fernet(urlsafe_b64encode(_derived(key, purpose)))


def _derived(key: str, purpose: str) -> bytes:
    derive = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"slipway:{purpose}".encode())
    return derive.derive(key.encode())
