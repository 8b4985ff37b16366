"""Where a version comes from, as its author told: names to read, and addresses to open."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from models_registry import names

TOLD = {"base_model": "Base model", "job": "Made by", "data": "Data"}
"""The keys of `Version.lineage` that have a meaning here; whatever else its author says is kept and shown."""
_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s]*")


@dataclass(frozen=True, slots=True)
class LineageLink:
    """`url` is empty for what cannot be opened."""

    label: str
    text: str
    url: str


def is_address(text: str) -> bool:
    """Whether it can be opened in a browser."""
    return _ADDRESS.fullmatch(text) is not None


def origins(lineage: Mapping[str, Any], *, hub: str) -> list[LineageLink]:
    """Base model, job and data; `hub` is where `hf://` names lead, empty for nowhere."""
    return [
        LineageLink(label, text, _url(text, hub))
        for key, label in TOLD.items()
        for text in _texts(lineage.get(key))
    ]


def _texts(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _url(text: str, hub: str) -> str:
    if is_address(text):
        return text
    if text.startswith("hf://"):
        repo_id, _, revision = text[len("hf://") :].partition("@")
        kind, slash, rest = repo_id.partition("/")
        named = rest if slash and kind in ("datasets", "models") else repo_id
        if hub and names.REPOSITORY.fullmatch(named) and (not revision or names.REVISION.fullmatch(revision)):
            place = f"datasets/{named}" if kind == "datasets" and slash else named
            return f"{hub}/{place}" + (f"/tree/{revision}" if revision else "")
        return ""
    model, colon, version = text.partition(":")
    if colon and re.fullmatch(names.MODEL_PATTERN, model) and re.fullmatch(names.VERSION_PATTERN, version):
        return f"/models/{model}/{version}/"
    return ""
