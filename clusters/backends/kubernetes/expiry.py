"""When what signs Slipway in to a cluster ends by itself: certificates and tokens of its kubeconfig. Pure."""

import base64
import binascii
import json
from collections.abc import Iterator
from datetime import UTC, datetime

from cryptography import x509

from kube.access import FixedToken
from kube.errors import BadConfig
from kube.kubeconfig import access_of


def credential_ends(kubeconfig: str, *, context: str = "") -> Iterator[tuple[str, datetime]]:
    """Yield the name and the end of each; nothing of a file that cannot be read: its cluster says so."""
    try:
        access = access_of(kubeconfig, context=context)
    except BadConfig:
        return
    for name, pem in (
        ("client certificate", access.certificate_pem),
        ("certificate authority", access.authority_pem),
    ):
        if pem:
            try:
                found = x509.load_pem_x509_certificates(pem.encode())
            except ValueError:
                continue
            yield name, min(one.not_valid_after_utc for one in found)
    if isinstance(access.token, FixedToken) and (end := _end_of_token(access.token.value)):
        yield "token", end


def _end_of_token(token: str) -> datetime | None:
    """Return when a JSON web token ends; None: it is none, or never ends."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError):
        return None
