"""What we sign the library of OpenSSF verifies, what it signs we verify, and nothing else passes."""

import base64
import hashlib
import json
import sys
from pathlib import Path

import model_signing
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from model_store.file_manifest import FileManifest, ManifestFile, manifest_of
from tests.models_registry import builders as b
from trust.errors import BadKey, CannotSign
from trust.signing import bundles, keys, signers
from trust.signing.keys import PrivateKey
from trust.states import SignatureVerdict


def new_key(curve: ec.EllipticCurve | None = None) -> PrivateKey:
    return PrivateKey(ec.generate_private_key(curve or ec.SECP256R1()))


def pem_of(key: PrivateKey) -> bytes:
    return key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def written(directory: Path, name: str, content: bytes | str) -> Path:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def manifest_in(directory: Path) -> FileManifest:
    found = [path for path in sorted(directory.rglob("*")) if path.is_file()]
    return manifest_of(
        ManifestFile(str(path.relative_to(directory)), path.stat().st_size, hashlib.sha256(data).hexdigest())
        for path, data in ((path, path.read_bytes()) for path in found)
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    more = {"sub/a.json": b"{}", "sub-b/c.json": b"{}", "sub.txt": b"x", ".gitignore": b"x"}
    return b.write(tmp_path / "model", b.model_files() | more)


def verified(bundle: str, manifest: FileManifest, *trusted: PrivateKey) -> bundles.BundleVerdict:
    named = {key.public_key.fingerprint: key.public_key for key in trusted}
    return bundles.verified(bundle, manifest, named)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda one: one.name)
def test_the_library_verifies_what_we_sign(directory: Path, tmp_path: Path, curve) -> None:
    key = new_key(curve)
    signature = written(tmp_path, "elsewhere.sig", bundles.signed("tiny:v1", manifest_in(directory), key))
    public = written(tmp_path, "key.pub", key.public_key.pem)
    config = model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public)
    config.verify(directory, signature)
    (directory / "config.json").write_bytes(b"{}")
    with pytest.raises(ValueError, match="mismatch"):
        config.verify(directory, signature)


def test_we_verify_what_the_library_signs(directory: Path, tmp_path: Path) -> None:
    key = new_key()
    private = written(tmp_path, "key.pem", pem_of(key))
    signature = directory / "model.sig"
    config = model_signing.signing.Config().use_elliptic_key_signer(private_key=private)
    config.sign(directory, signature)
    found = verified(signature.read_text(), manifest_in(directory), new_key(), key)
    assert (found.verdict, found.fingerprint) == (SignatureVerdict.VALID, key.public_key.fingerprint)


@pytest.fixture
def key() -> PrivateKey:
    return new_key()


@pytest.fixture
def bundle(directory: Path, key: PrivateKey) -> str:
    return bundles.signed("tiny:v1", manifest_in(directory), key)


CHANGES = {
    "config.json": (b"{}", "'config.json' is not what was signed"),
    "extra.json": (b"{}", "'extra.json' is not among the files that were signed"),
    "model.sig/evil.json": (b"{}", "'model.sig/evil.json' is not among the files"),
    "sub/.gitignore": (b"x", "'sub/.gitignore' is not among the files"),
    "model.safetensors": (None, "'model.safetensors', which is not among the files of this version"),
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_version_that_is_not_what_was_signed_is_found(
    directory: Path, bundle: str, key: PrivateKey, path: str
) -> None:
    content, reason = CHANGES[path]
    if content is None:
        (directory / path).unlink()
    else:
        b.write(directory, {path: content})
    found = verified(bundle, manifest_in(directory), key)
    assert found.verdict == SignatureVerdict.INVALID
    assert reason in found.reason


def tampered(bundle: str, **changes: object) -> str:
    """The bundle with changes at dotted paths; `payload` maps the statement itself."""
    told = json.loads(bundle)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = told
        for part in parents:
            place = place[int(part)] if part.isdigit() else place[part]
        place[last] = value
    return json.dumps(told)


OTHER = base64.b64encode(b'{"_type": "https://in-toto.io/Statement/v1"}').decode()
TAMPERED = {
    "another statement": ({"dsseEnvelope__payload": OTHER}, "that has not made it"),
    "no base64": ({"dsseEnvelope__payload": "%%%"}, "no bundle"),
    "another type": ({"dsseEnvelope__payloadType": "text/plain"}, "no bundle"),
    "no signature": ({"dsseEnvelope__signatures": []}, "no bundle"),
    "a certificate": ({"verificationMaterial": {"certificate": {}}}, "only signatures by keys"),
    "another version": ({"mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.1"}, "no bundle"),
}


@pytest.mark.parametrize("case", TAMPERED)
def test_a_bundle_that_was_tampered_with_is_invalid(directory, bundle, key, case: str) -> None:
    changes, reason = TAMPERED[case]
    found = verified(tampered(bundle, **changes), manifest_in(directory), key)
    assert (found.verdict, reason in found.reason) == (SignatureVerdict.INVALID, True), found.reason


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 10_000, "\x00", '{"mediaType": 1}'])
def test_what_is_no_bundle_is_invalid(directory: Path, key: PrivateKey, text: str) -> None:
    assert verified(text, manifest_in(directory), key).verdict == SignatureVerdict.INVALID


def test_who_names_a_trusted_key_without_having_it_is_found_out(directory: Path, key: PrivateKey) -> None:
    forged = bundles.signed("tiny:v1", manifest_in(directory), new_key())
    named = tampered(forged, verificationMaterial__publicKey={"hint": key.public_key.fingerprint})
    assert verified(named, manifest_in(directory), key).verdict == SignatureVerdict.INVALID
    assert verified(forged, manifest_in(directory), key).verdict == SignatureVerdict.UNKNOWN
    for hint in ({}, {"hint": None}, {"hint": "\x00"}, {"hint": "A" * 64}):
        unnamed = tampered(forged, verificationMaterial__publicKey=hint)
        found = verified(unnamed, manifest_in(directory), key)
        assert (found.verdict, found.fingerprint) == (SignatureVerdict.UNKNOWN, "")
    assert verified(forged, manifest_in(directory)).verdict == SignatureVerdict.UNKNOWN


def test_keys_of_other_kinds_are_refused_with_the_reason(key: PrivateKey) -> None:
    other = rsa.generate_private_key(65537, 2048)
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    for pem, reason in (
        (public, "another kind"),
        (pem_of(key).decode(), "private key: nobody else"),
        ("hello", "no public key"),
        (PrivateKey(ec.generate_private_key(ec.SECP256K1())).public_key.pem, "another kind"),
    ):
        with pytest.raises(BadKey, match=reason):
            keys.public_key(pem)


COMMAND = """
import base64, sys
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
key = serialization.load_pem_private_key(open(sys.argv[1], "rb").read(), None)
signature = key.sign(sys.stdin.buffer.read(), ec.ECDSA(hashes.SHA256()))
sys.stdout.buffer.write({how})
"""


@pytest.mark.parametrize("how", ["signature", "base64.b64encode(signature) + b'\\n'"])
def test_a_command_signs_in_der_or_base64(directory: Path, tmp_path: Path, key: PrivateKey, how: str) -> None:
    script = written(tmp_path, "kms.py", COMMAND.format(how=how))
    private = written(tmp_path, "key.pem", pem_of(key))
    public = written(tmp_path, "key.pub", key.public_key.pem)
    command = signers.command([sys.executable, str(script), str(private)], public)
    bundle = bundles.signed("tiny:v1", manifest_in(directory), command)
    assert verified(bundle, manifest_in(directory), key).verdict == SignatureVerdict.VALID


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('no such key\\x1b[31m')", r"status 1: no such key\\u001b"),
        ("print('bm90aGluZw==')", "no signature by the key in SLIPWAY_SIGNING_PUBLIC_KEY"),
        ("import time; time.sleep(60)", "has not answered in 1 s"),
        ("import os; assert not [n for n in os.environ if n.startswith('SLIPWAY_')]", "no signature by"),
    ],
)
def test_a_command_that_does_not_sign_says_why(key: PrivateKey, script: str, reason: str) -> None:
    command = signers.Command([sys.executable, "-c", script], key.public_key, patience_seconds=1)
    with pytest.raises(CannotSign, match=reason):
        command.sign(b"x")


def test_a_key_that_cannot_be_read_says_which_and_why(tmp_path: Path) -> None:
    with pytest.raises(CannotSign, match=r"absent.pem cannot be used: No such file"):
        signers.key_file(tmp_path / "absent.pem")
    with pytest.raises(CannotSign, match="holds no private key"):
        signers.key_file(written(tmp_path, "wrong.pem", "hello"))
    with pytest.raises(CannotSign, match="cannot be started"):
        signers.Command([str(tmp_path / "absent")], new_key().public_key).sign(b"x")
