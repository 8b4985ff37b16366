"""What a signature says: these files, each with its sha256, and no others.

The statement is in-toto's (https://in-toto.io/Statement/v1); the predicate is that of
https://github.com/sigstore/model-transparency, `https://model_signing/signature/v1.0`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import orjson

from model_store.file_manifest import FileManifest
from model_store.paths import printable
from trust.errors import BadSignature

SIGNATURE_PATH = "model.sig"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://model_signing/signature/v1.0"
NOT_COVERED = (SIGNATURE_PATH, ".git", ".gitattributes", ".github", ".gitignore")
"""What the library leaves out of every signature unless told otherwise; no loader reads any of it."""


def statement(name: str, manifest: FileManifest) -> bytes:
    """Return the statement in the order and with the root digest of the library, so that its verifier
    finds the same.
    """
    files = sorted(
        (file for file in manifest.files if is_covered(file.path)), key=lambda file: PurePosixPath(file.path)
    )
    root = hashlib.sha256(b"".join(bytes.fromhex(file.sha256) for file in files)).hexdigest()
    return orjson.dumps(
        {
            "_type": _STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": root}}],
            "predicateType": _PREDICATE,
            "predicate": {
                "serialization": {
                    "method": "files",
                    "hash_type": "sha256",
                    "allow_symlinks": False,
                    "ignore_paths": list(NOT_COVERED),
                },
                "resources": [
                    {"name": file.path, "algorithm": "sha256", "digest": file.sha256} for file in files
                ],
            },
        }
    )


def is_covered(path: str) -> bool:
    inside = path.startswith((".git/", ".github/"))
    return not inside and path not in (SIGNATURE_PATH, ".gitattributes", ".gitignore")


def check_statement(payload: bytes, manifest: FileManifest) -> None:
    """Raises BadSignature unless the statement covers the files of the manifest as they are.

    Only what no signature covers may be missing from it: whatever else its signer left out could be anything.
    """
    signed = _signed_files(payload)
    present = {file.path: file.sha256 for file in manifest.files}
    for path, sha256 in signed.items():
        if path not in present:
            raise BadSignature(f"It covers {_shown(path)}, which is not among the files of this version.")
        if present[path] != sha256:
            raise BadSignature(f"{_shown(path)} is not what was signed: its content was changed since.")
    for path in present:
        if path not in signed and is_covered(path):
            raise BadSignature(f"{_shown(path)} is not among the files that were signed.")


def _signed_files(payload: bytes) -> dict[str, str]:
    try:
        return _files_of(orjson.loads(payload))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise BadSignature("What was signed is no statement of OpenSSF Model Signing v1.") from None


def _files_of(told: Mapping[str, Any]) -> dict[str, str]:
    if told["_type"] != _STATEMENT or told["predicateType"] != _PREDICATE or len(told["subject"]) != 1:
        raise ValueError("kind")
    how = told["predicate"]["serialization"]
    if (how["method"], how["hash_type"]) != ("files", "sha256"):
        raise BadSignature(
            "It was made over shards, or with another hash than sha256. Sign the model file by file, as "
            "`model_signing sign` does unless told otherwise."
        )
    root, files = hashlib.sha256(), {}
    for one in told["predicate"]["resources"]:
        if one["algorithm"] != "sha256" or one["name"] in files:
            raise ValueError("resource")
        root.update(bytes.fromhex(one["digest"]))
        files[str(one["name"])] = str(one["digest"]).lower()
    if root.hexdigest() != told["subject"][0]["digest"]["sha256"]:
        raise ValueError("root")
    return files


def _shown(path: str) -> str:
    return f"'{printable(path)[:200]}'"
