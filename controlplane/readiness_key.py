"""How processes of an installation prove to be of it to `/readyz`, also while the database is away."""

import hashlib
import hmac

HEADER = "X-Slipway-Readiness"


def readiness_key(secret: str) -> str:
    """Derive the key from the installation's secret key, which it does not give away."""
    return hmac.new(secret.encode(), b"readiness", hashlib.sha256).hexdigest()
