"""Two versions side by side: their files, configs, tokenizers, cards and figures. Pure."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from model_store.file_manifest import ManifestFile
from models_registry.facts.figures import FigureChange
from models_registry.facts.tokenizer import Tokenizer

Change = Literal["same", "changed", "added", "removed"]
CHANGES: tuple[Change, ...] = ("same", "changed", "added", "removed")
MAX_DIFF_LINES = 1_500


@dataclass(frozen=True, slots=True)
class FileChange:
    """Sizes in bytes; None where the file is not there."""

    path: str
    change: Change
    size_before: int | None
    size_after: int | None


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A config key with dots between its parts; None where it is not there."""

    key: str
    change: Change
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class TokenizerChange:
    """The difference between two tokenizers; None where a version has none."""

    before: Tokenizer | None
    after: Tokenizer | None

    @property
    def change(self) -> Change:
        return _change(self.before, self.after)

    @property
    def chat_template(self) -> Change:
        one, other = (tokenizer.chat_template if tokenizer else "" for tokenizer in (self.before, self.after))
        return _change(one or None, other or None)

    @property
    def special_added(self) -> list[str]:
        return sorted(self._special(self.after) - self._special(self.before))

    @property
    def special_removed(self) -> list[str]:
        return sorted(self._special(self.before) - self._special(self.after))

    @staticmethod
    def _special(tokenizer: Tokenizer | None) -> set[str]:
        return set(tokenizer.special_tokens) if tokenizer else set()


@dataclass(frozen=True, slots=True)
class TextChange:
    change: Change
    lines: tuple[str, ...] = ()
    """A unified diff without its head: the first character of a line says what became of it."""
    is_too_long: bool = False
    """So long that nobody would read the difference."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    path: str
    text: TextChange


@dataclass(frozen=True, slots=True)
class VersionComparison:
    files: tuple[FileChange, ...]
    config: tuple[KeyChange, ...]
    """Only keys that differ."""
    facts: tuple[KeyChange, ...] = ()
    """As `config`, of what `details_of` tells."""
    tokenizer: TokenizerChange = TokenizerChange(None, None)
    card: TextChange = TextChange("same")
    figures: tuple[FigureChange, ...] = ()
    code: tuple[CodeChange, ...] = ()
    """Only files that differ."""
    licenses: tuple[str, str] = ("", "")
    """As the cards name them; empty: not stated."""

    def bytes_of(self, change: Change) -> int:
        """Bytes in the second version of what is same, changed or added; in the first of what is removed."""
        return sum(
            (file.size_before if change == "removed" else file.size_after) or 0
            for file in self.files
            if file.change == change
        )

    def count_of(self, change: Change) -> int:
        return sum(file.change == change for file in self.files)


def compared(
    before: Sequence[ManifestFile],
    after: Sequence[ManifestFile],
    *,
    config_before: Mapping[str, Any],
    config_after: Mapping[str, Any],
    facts_before: Mapping[str, Any] | None = None,
    facts_after: Mapping[str, Any] | None = None,
    tokenizers: tuple[Tokenizer | None, Tokenizer | None] = (None, None),
    cards: tuple[str | None, str | None] = (None, None),
    figures: tuple[FigureChange, ...] = (),
    code: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> VersionComparison:
    return VersionComparison(
        _files(before, after),
        _keys(flattened(config_before), flattened(config_after)),
        _keys(flattened(facts_before or {}), flattened(facts_after or {})),
        TokenizerChange(*tokenizers),
        compared_texts(*cards),
        figures,
        tuple(
            CodeChange(path, change)
            for path in sorted(code[0].keys() | code[1].keys())
            if (change := compared_texts(code[0].get(path), code[1].get(path))).change != "same"
        ),
    )


def compared_texts(before: str | None, after: str | None) -> TextChange:
    """Compare two texts; None stands for a missing one."""
    change = _change(before, after)
    if change == "same":
        return TextChange(change)
    first, second = (before or "").splitlines(), (after or "").splitlines()
    if max(len(first), len(second)) > MAX_DIFF_LINES:
        return TextChange(change, is_too_long=True)
    return TextChange(change, tuple(difflib.unified_diff(first, second, lineterm=""))[2:])


def _files(before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> tuple[FileChange, ...]:
    first = {file.path: file for file in before}
    second = {file.path: file for file in after}
    found = []
    for path in sorted(first.keys() | second.keys(), key=str.encode):
        one, other = first.get(path), second.get(path)
        found.append(
            FileChange(
                path,
                _change(one and one.sha256, other and other.sha256),
                one.size if one else None,
                other.size if other else None,
            )
        )
    return tuple(found)


def _keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[KeyChange, ...]:
    absent = object()
    changes = (
        KeyChange(
            key,
            _change(before.get(key, absent), after.get(key, absent), absent),
            before.get(key),
            after.get(key),
        )
        for key in sorted(before.keys() | after.keys())
    )
    return tuple(change for change in changes if change.change != "same")


def _change(before: Any, after: Any, absent: Any = None) -> Change:
    # 1 == 1.0 == True in Python, but not in a config.
    if (type(before), before) == (type(after), after):
        return "same"
    if before is absent:
        return "added"
    return "removed" if after is absent else "changed"


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"rope": {"theta": 1}}` as `{"rope.theta": 1}`; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
