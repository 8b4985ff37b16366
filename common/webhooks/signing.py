"""Signatures of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks (v1, symmetric)."""

import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence

PREFIX = "whsec_"
SECRET_BYTES = 32
"""The specification asks for 24 to 64."""


def new_secret() -> str:
    return PREFIX + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def sign(secret: str, *, message_id: str, timestamp: int, body: bytes) -> str:
    """`v1,` and the base64 of the HMAC-SHA256 over `id.timestamp.body`. Raises ValueError for no secret."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except NotBase64:
        key = b""
    if not key or not secret.startswith(PREFIX):
        raise ValueError("A webhook secret is whsec_ and base64.")
    signed = f"{message_id}.{timestamp}.".encode() + body
    return "v1," + b64encode(hmac.digest(key, signed, "sha256")).decode()


def headers(
    secrets_in_force: Sequence[str], *, message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """The three headers; one signature for each secret, so that a receiver may know either of them."""
    signatures = [
        sign(one, message_id=message_id, timestamp=timestamp, body=body) for one in secrets_in_force
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }
