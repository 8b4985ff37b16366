"""Signatures under a key that is not in the database: who can write there alone cannot make them.

HMAC-SHA256 under `SLIPWAY_AUDIT_KEY`; what its former values (`SLIPWAY_AUDIT_KEY_FALLBACKS`) signed still
counts.
"""

import hashlib
import hmac
from enum import Enum
from typing import NamedTuple

from django.conf import settings


class Signature(NamedTuple):
    key_id: str
    """12 hexadecimal digits that name the key and do not give it away."""
    value: str


class SignatureCheck(Enum):
    GOOD = "good"
    FORGED = "forged"
    """Not made with the key that it names."""
    FOREIGN = "foreign"
    """It names a key that is not here."""


def sign(text: str) -> Signature:
    key = settings.SLIPWAY_AUDIT_KEY
    return Signature(_id_of(key), _digest(key, text))


def check(signature: Signature, text: str) -> SignatureCheck:
    for key in (settings.SLIPWAY_AUDIT_KEY, *settings.SLIPWAY_AUDIT_KEY_FALLBACKS):
        if hmac.compare_digest(_id_of(key), signature.key_id):
            is_good = hmac.compare_digest(_digest(key, text), signature.value)
            return SignatureCheck.GOOD if is_good else SignatureCheck.FORGED
    return SignatureCheck.FOREIGN


def _id_of(key: str) -> str:
    return _digest(key, "key id")[:12]


def _digest(key: str, text: str) -> str:
    return hmac.new(key.encode(), f"slipway audit\n{text}".encode(), hashlib.sha256).hexdigest()
