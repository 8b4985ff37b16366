"""What a version's tokenizer is, as its files tell: `tokenizer.json`, its config, a SentencePiece model."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _

from model_store import blob_store
from model_store.errors import BlobMissing
from model_store.file_manifest import ManifestFile
from model_store.reading import Content, MalformedContent
from trust.formats import sentencepiece, text
from trust.formats.templates import templates_in

MAX_BYTES = 40 * 1024 * 1024
"""Of a tokenizer.json that is read to compare two versions; Gemma's has 32 MiB."""
_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model",
          "spiece.model", "vocab.json", "vocab.txt", "chat_template.jinja", "chat_template.json")  # fmt: skip
_ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
MAX_SPECIAL = 2_000


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """`vocabulary` counts tokens, added ones among them; None where no file tells."""

    kind: str
    """`BPE`, `Unigram`, `WordPiece`, `WordLevel`, `SentencePiece`; empty where no file tells."""
    vocabulary: int | None
    special_tokens: tuple[str, ...]
    roles: Mapping[str, str]
    """Such as `{"eos_token": "</s>"}`."""
    chat_template: str
    """sha256 of the chat templates; empty: none."""


def tokenizer_of(manifest: Mapping[str, ManifestFile]) -> Tokenizer | None:
    """Read the tokenizer among the files at the top of a version, by path; return None without one.

    Raises BlobMissing when the store has lost one.
    """
    found = tuple((name, manifest[name].sha256) for name in _FILES if name in manifest)
    return _tokenizer(found) if found else None


@lru_cache(maxsize=64)
def _tokenizer(found: tuple[tuple[str, str], ...]) -> Tokenizer:
    """Contents never change under their sha256, so what was read of them once holds."""
    blobs = dict(found)

    def json_of(name: str) -> dict[str, Any]:
        value = _read(blobs[name], text.parse_json) if name in blobs else None
        return value if isinstance(value, dict) else {}

    fast, config, told = map(json_of, ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))
    model = _dict(fast.get("model"))
    added = [token for token in _list(fast.get("added_tokens")) if isinstance(token, dict)]
    added += [
        token for token in _dict(config.get("added_tokens_decoder")).values() if isinstance(token, dict)
    ]
    kind, vocabulary = _text(model.get("type")), _vocabulary(model, added)
    if not kind:
        kind, vocabulary = _of_pieces(blobs)
    roles = {role: token for role in _ROLES if (token := _token(config.get(role)) or _token(told.get(role)))}
    others = _list(config.get("additional_special_tokens")) or _list(told.get("additional_special_tokens"))
    special = {_token(token) for token in added if token.get("special") is True}
    special |= {*roles.values(), *map(_token, others)}
    return Tokenizer(
        kind=kind[:40],
        vocabulary=vocabulary,
        special_tokens=tuple(sorted(special - {""}))[:MAX_SPECIAL],
        roles=roles,
        chat_template=_templates(config, blobs),
    )


def _vocabulary(model: Mapping[str, Any], added: list[dict[str, Any]]) -> int | None:
    """Unigram lists pairs of a piece and its score, the others name each token's number."""
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, dict):
        known = set(vocabulary)
    elif isinstance(vocabulary, list):
        known = {piece[0] for piece in vocabulary if isinstance(piece, list) and piece and _text(piece[0])}
    else:
        return None
    return len(known | {_text(token.get("content")) for token in added} - {""})


def _of_pieces(blobs: Mapping[str, str]) -> tuple[str, int | None]:
    for name in ("tokenizer.model", "spiece.model"):
        if name in blobs and (pieces := _read(blobs[name], sentencepiece.parse)):
            return "SentencePiece", pieces
    if "vocab.txt" in blobs:
        return "WordPiece", _read(blobs["vocab.txt"], lambda content: len(_bytes(content).splitlines()))
    if "vocab.json" in blobs:
        listed = _read(blobs["vocab.json"], text.parse_json)
        return "BPE", len(listed) if isinstance(listed, dict) else None
    return "", None


def _templates(config: Mapping[str, Any], blobs: Mapping[str, str]) -> str:
    templates = templates_in(config)
    if "chat_template.jinja" in blobs:
        templates = [(_read(blobs["chat_template.jinja"], _bytes) or b"").decode("utf-8", "replace")]
    elif not templates and "chat_template.json" in blobs:
        templates = templates_in(_read(blobs["chat_template.json"], text.parse_json))
    if not any(templates):
        return ""
    return hashlib.sha256("\0".join(templates).encode("utf-8", "replace")).hexdigest()


def _read(sha256: str, parse: Callable[[Content], Any]) -> Any:
    """Parse a file; return None if it is too large or malformed."""
    try:
        with blob_store.store().opened(sha256) as content:
            return parse(content) if content.size <= MAX_BYTES else None
    except MalformedContent:
        return None
    except OSError as error:
        raise BlobMissing(
            _("The store cannot read a tokenizer: %(error)s.") % {"error": error.strerror or error}
        ) from None


def _bytes(content: Content) -> bytes:
    return content.read_at(0, content.size)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _token(value: Any) -> str:
    """A token is told as text, or as an object with its `content`."""
    return (_text(value) or _text(_dict(value).get("content")))[:200]
