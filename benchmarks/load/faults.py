"""Faults of a JSON object by the dotted names of its fields, in sentences that a catalogue has. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


def _(text: str) -> str:
    """Mark a text for the catalogues: this module knows no language."""
    return text


@dataclass(frozen=True, slots=True)
class FaultText:
    """A sentence whose text a catalogue has, with the values that it names."""

    text: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text % self.values

    def translated(self, translate: Callable[[str], str]) -> str:
        return translate(self.text) % self.values


def known_fields(
    given: object, kind: type, prefix: str, faults: dict[str, FaultText], *, root: str = ""
) -> dict[str, Any]:
    """Return those of the given fields that the dataclass `kind` has; all others become faults.

    `prefix`: `targets.`, or empty for the whole document, whose name is `root`.
    """
    if not isinstance(given, Mapping):
        faults[prefix.rstrip(".") or root] = FaultText(_("Give a JSON object."))
        return {}
    names = [one.name for one in fields(kind)]
    for name in given:
        if name not in names:
            faults[f"{prefix}{name}"] = FaultText(
                _("There is no such field. Known: %(known)s."), {"known": ", ".join(names)}
            )
    return {name: given[name] for name in names if name in given}


def not_one_of(choices: Sequence[str]) -> FaultText:
    return FaultText(_("Choose one of %(known)s."), {"known": ", ".join(choices)})


def not_whole(least: int, most: int) -> FaultText:
    return FaultText(
        _("Give a whole number from %(least)s to %(most)s."), {"least": f"{least:,}", "most": f"{most:,}"}
    )


def is_number(value: object, *, above: float | None = None, least: float = -math.inf) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return False
    return value >= least and (above is None or value > above)


def is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
