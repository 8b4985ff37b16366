"""Two versions side by side: their files and their configs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from models_registry.manifest import ManifestFile

Change = Literal["same", "changed", "added", "removed"]


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
class Comparison:
    files: tuple[FileChange, ...]
    config: tuple[KeyChange, ...]
    """Only keys that differ."""
    facts: tuple[KeyChange, ...] = ()
    """As `config`, of what `facts.details_of` tells."""

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
) -> Comparison:
    return Comparison(
        _files(before, after),
        _keys(flattened(config_before), flattened(config_after)),
        _keys(flattened(facts_before or {}), flattened(facts_after or {})),
    )


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
    if before is absent:
        return "added"
    if after is absent:
        return "removed"
    # 1 == 1.0 == True in Python, but not in a config.
    return "same" if (type(before), before) == (type(after), after) else "changed"


def flattened(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"rope": {"theta": 1}}` as `{"rope.theta": 1}`; lists stay whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
