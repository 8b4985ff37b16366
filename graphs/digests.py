"""Digests of documents, by which plans are compared."""

from collections.abc import Mapping
from hashlib import sha256
from json import dumps
from typing import Any


def digest_of(document: Mapping[str, Any]) -> str:
    return sha256(dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
