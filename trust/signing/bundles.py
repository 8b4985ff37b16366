"""Bundles of Sigstore around a DSSE envelope: the text of a `model.sig`.

https://docs.sigstore.dev/about/bundle/, https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from model_store.file_manifest import FileManifest
from trust.errors import BadSignature
from trust.signing.keys import PublicKey
from trust.signing.signers import Signer
from trust.signing.statements import check_statement, statement
from trust.states import SignatureVerdict

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
MAX_BYTES = 16 * 1024 * 1024
"""20,000 files, the most that a version may have, take some 6 MB."""


@dataclass(frozen=True, slots=True)
class SignatureBundle:
    """`fingerprint` is what it names its key by, which proves nothing; empty where that is none of ours."""

    payload: bytes
    signature: bytes
    fingerprint: str


@dataclass(frozen=True, slots=True)
class BundleVerdict:
    """`fingerprint` is of the key that made the signature where that is proven, else what the bundle says."""

    verdict: SignatureVerdict
    reason: str
    fingerprint: str = ""


def signed(name: str, manifest: FileManifest, signer: Signer) -> str:
    """The text of a bundle over the files of a manifest. Raises CannotSign."""
    payload = statement(name, manifest)
    signature = signer.sign(_encoded(payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD_TYPE,
        "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
    }
    material = {"publicKey": {"hint": signer.public_key.fingerprint}, "tlogEntries": []}
    bundle = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
    return orjson.dumps(bundle).decode()


def verified(text: str, manifest: FileManifest, keys: Mapping[str, PublicKey]) -> BundleVerdict:
    """Whether one of the trusted `keys`, by fingerprint, has signed just the files of the manifest.

    Nothing that was signed is read before it is known who has signed it.
    """
    try:
        bundle = read(text)
    except BadSignature as error:
        return BundleVerdict(SignatureVerdict.INVALID, str(error))
    told = bundle.fingerprint
    candidates = [keys[told]] if told in keys else [] if told else list(keys.values())
    message = _encoded(bundle.payload)
    signer = next((key for key in candidates if key.verifies(bundle.signature, message)), None)
    if signer is None and told in keys:
        return BundleVerdict(SignatureVerdict.INVALID, "It names a trusted key that has not made it.", told)
    if signer is None:
        return BundleVerdict(SignatureVerdict.UNKNOWN, "No key that the team trusts has made it.", told)
    try:
        check_statement(bundle.payload, manifest)
    except BadSignature as error:
        return BundleVerdict(SignatureVerdict.INVALID, str(error), signer.fingerprint)
    return BundleVerdict(SignatureVerdict.VALID, "", signer.fingerprint)


def read(text: str) -> SignatureBundle:
    """Raises BadSignature."""
    if len(text) > MAX_BYTES:
        raise BadSignature(f"It is larger than {MAX_BYTES:,} bytes.")
    try:
        return _bundle_of(orjson.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error):
        raise BadSignature("It is no bundle of Sigstore, version 0.3.") from None


def is_bundle(text: str) -> bool:
    try:
        read(text)
    except BadSignature:
        return False
    return True


def _bundle_of(told: Mapping[str, Any]) -> SignatureBundle:
    envelope, material = told["dsseEnvelope"], told["verificationMaterial"]
    signatures = envelope["signatures"]
    if (told["mediaType"], envelope["payloadType"]) != (MEDIA_TYPE, _PAYLOAD_TYPE) or len(signatures) != 1:
        raise ValueError("kind")
    if "publicKey" not in material:
        raise BadSignature(
            "It was made with a certificate or by Sigstore's service; only signatures by keys are verified."
        )
    hint = str(material["publicKey"].get("hint"))
    return SignatureBundle(
        base64.b64decode(envelope["payload"], validate=True),
        base64.b64decode(signatures[0]["sig"], validate=True),
        hint if _FINGERPRINT.fullmatch(hint) else "",
    )


def _encoded(payload: bytes) -> bytes:
    """DSSE's PAE: what is signed in fact."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(payload), payload)
