"""Slipway's own keys for SAML: the one that signs, and a second one while keys are exchanged. The files are
read at each use, so that a change counts at once.
"""

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from django.conf import settings

from identity.errors import ProviderUnavailable

FIRST = ("SLIPWAY_SAML_KEY", "SLIPWAY_SAML_CERTIFICATE")
SECOND = ("SLIPWAY_SAML_SECOND_KEY", "SLIPWAY_SAML_SECOND_CERTIFICATE")


def has_key() -> bool:
    return bool(settings.SLIPWAY_SAML_KEY)


def private_keys() -> Sequence[str]:
    """Return our keys as PEM, the signing one first; all of them decrypt. Raises ProviderUnavailable."""
    return [_read(getattr(settings, key)) for key, _ in _pairs()]


def certificate_texts() -> Sequence[str]:
    """Return the certificates of `private_keys` as PEM. Raises ProviderUnavailable."""
    return [_read(getattr(settings, certificate)) for _, certificate in _pairs()]


def certificates() -> Sequence[x509.Certificate]:
    """Return the certificates by which the provider encrypts for Slipway and checks its signatures. Raises
    ProviderUnavailable, also when one does not match its key.
    """
    texts = zip(_pairs(), private_keys(), certificate_texts(), strict=True)
    return [_certificate(names, key, certificate) for names, key, certificate in texts]


def _pairs() -> list[tuple[str, str]]:
    return [pair for pair in (FIRST, SECOND) if getattr(settings, pair[0])]


def _certificate(names: tuple[str, str], key: str, certificate: str) -> x509.Certificate:
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError as error:
        raise ProviderUnavailable(f"{names[1]} is no certificate: {error}") from None
    try:
        own = serialization.load_pem_private_key(key.encode(), None).public_key()
    except (ValueError, TypeError) as error:
        raise ProviderUnavailable(f"{names[0]} is no private key as PEM: {error}") from None
    if own != found.public_key():
        raise ProviderUnavailable(f"{names[1]} is the certificate of another key than {names[0]}.")
    return found


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderUnavailable(f"Slipway's own key for SAML cannot be read: {error}") from error
