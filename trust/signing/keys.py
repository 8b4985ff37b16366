"""Keys on elliptic curves, and what they sign."""

import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from trust.errors import BadKey

MAX_PEM = 4_096
_HASHES: dict[str, type[hashes.HashAlgorithm]] = {
    "secp256r1": hashes.SHA256, "secp384r1": hashes.SHA384, "secp521r1": hashes.SHA512,
}  # fmt: skip
"""By curve, as Sigstore's protobuf specification pairs them."""
_WANTED = "an elliptic curve key on P-256, P-384 or P-521, in PEM"


@dataclass(frozen=True, slots=True)
class PublicKey:
    key: ec.EllipticCurvePublicKey

    @property
    def pem(self) -> str:
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()

    @property
    def fingerprint(self) -> str:
        """The sha256 in hex of the PEM text, by which a bundle names its key."""
        return hashlib.sha256(self.pem.encode()).hexdigest()

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the holder of the private key has signed the message: ECDSA, in DER."""
        try:
            self.key.verify(signature, message, ec.ECDSA(_HASHES[self.key.curve.name]()))
        except InvalidSignature:
            return False
        return True


def public_key(pem: str) -> PublicKey:
    """Raises BadKey."""
    if "PRIVATE KEY" in pem:
        raise BadKey(
            "This is a private key: nobody else may see it. Give the public one, as "
            "`openssl pkey -in KEY -pubout` prints it."
        )
    try:
        found = load_pem_public_key(pem[:MAX_PEM].encode())
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey(f"This is no public key. It must be {_WANTED}.") from None
    if not isinstance(found, ec.EllipticCurvePublicKey) or found.curve.name not in _HASHES:
        raise BadKey(f"This is a public key of another kind. It must be {_WANTED}.")
    return PublicKey(found)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    key: ec.EllipticCurvePrivateKey

    @property
    def public_key(self) -> PublicKey:
        return PublicKey(self.key.public_key())

    def sign(self, message: bytes) -> bytes:
        """Return the signature of the message in DER."""
        return self.key.sign(message, ec.ECDSA(_HASHES[self.key.curve.name]()))


def private_key(pem: bytes) -> PrivateKey:
    """Return the private key of a PEM file without a password. Raises BadKey."""
    try:
        found = load_pem_private_key(pem, password=None)
    except TypeError:
        raise BadKey(
            "The private key has a password; store it without one, readable to Slipway only."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise BadKey(f"It holds no private key. It must be {_WANTED}.") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name not in _HASHES:
        raise BadKey(f"It holds a private key of another kind. It must be {_WANTED}.")
    return PrivateKey(found)
