"""Certificate authorities of one's own (`SLIPWAY_CA_FILE`), for all that this process and its children ask.

OpenSSL, httpx2 and boto3 each read a variable that names a file of all authorities that count: here they are
given one with the system's and our own.
"""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

NAMES = ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
SYSTEMS = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
BUNDLE = "authorities.pem"


def authorities_in(file: str) -> str:
    """Its text. Raises ValueError with a sentence when it cannot be read or holds no certificate."""
    try:
        text = Path(file).read_text(encoding="ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from None
    except (ValueError, ssl.SSLError):
        raise ValueError(f"{file} is no PEM file of certificates") from None
    return text


def trusting(file: str, run_dir: Path) -> Mapping[str, str]:
    """The variables with which a process trusts those in the file too. Raises OSError, ValueError."""
    bundle = run_dir / BUNDLE
    named = os.environ.get("SSL_CERT_FILE", "")
    if named == str(bundle):
        return {}  # By our parent.
    systems = named or next((path for path in SYSTEMS if Path(path).is_file()), "")
    text = authorities_in(file)
    if systems:
        text = f"{Path(systems).read_text(encoding='utf-8')}\n{text}"
    run_dir.mkdir(parents=True, exist_ok=True)
    # Replaced atomically: other processes of this home read it.
    fresh = bundle.with_name(f"{BUNDLE}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(bundle)
    return dict.fromkeys(NAMES, str(bundle))
