"""Rules as their sources state them: a file each, and `driver.csv`, which belongs to all.

A column `conditions` holds fields of `Conditions` as `count=2 window_seconds=86400 same=gpc+tpc`; a detail is
`details.NAME=VALUE`, without a value: the source did not tell it. `inferred` marks a severity or an action
that the source does not name itself.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gpu_health.policy.rule import (
    BadRule,
    Citation,
    Conditions,
    DrainLevel,
    FaultRule,
    Mode,
    RemediationAction,
    Severity,
    Verification,
)
from gpu_health.signals.xid import RECOVERY_ACTION

DEFAULT = "default"
DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class RulePreset:
    name: str
    title: str
    speaks_of_machines: bool = True
    """False: it hands GPUs out, and only stops doing so."""


PRESETS: tuple[RulePreset, ...] = (
    RulePreset(DEFAULT, "Slipway"),
    RulePreset("nvidia", "NVIDIA"),
    RulePreset("gpud", "gpud"),
    RulePreset("eks", "Amazon EKS"),
    RulePreset("gke", "GKE"),
    RulePreset("azurehpc", "AzureHPC"),
    RulePreset("volcano", "Volcano", speaks_of_machines=False),
    RulePreset("device_plugin", "NVIDIA device plugin", speaks_of_machines=False),
)


@dataclass(frozen=True, slots=True)
class CitedDocument:
    """The document that statements are from. `date` and `url` may be empty."""

    title: str
    date: str
    url: str


@dataclass(frozen=True, slots=True)
class KnownFault:
    """A fault that has a name; `mnemonic` is the driver's own."""

    name: str
    mnemonic: str
    title: str


@cache
def preset(name: str) -> tuple[FaultRule, ...]:
    """The rules of a preset, and the driver's own. Raises BadRule when there is no such preset."""
    known = [one.name for one in PRESETS]
    if name not in known:
        raise BadRule(f"There is no preset {name}: choose one of {', '.join(known)}.")
    return _read(name) + _read(DRIVER)


@cache
def complete(name: str) -> tuple[FaultRule, ...]:
    """The rules of a preset, and Slipway's for the faults that it does not speak of. Raises BadRule."""
    own = preset(name)
    spoken = {rule.fault for rule in own}
    return own + tuple(rule for rule in preset(DEFAULT) if rule.fault not in spoken)


@cache
def sources() -> Mapping[str, CitedDocument]:
    return {
        row["source"]: CitedDocument(row["title"], row["date"], row["url"]) for row in _rows("sources.csv")
    }


@cache
def faults() -> Mapping[str, KnownFault]:
    rows = _rows("faults.csv")
    return {row["fault"]: KnownFault(row["fault"], row["mnemonic"], row["title"]) for row in rows}


def fault_title(name: str) -> str:
    """`Xid 79: GPU has fallen off the bus`; the name itself where nobody has described the fault."""
    known = faults().get(name)
    number = f"Xid {name.removeprefix('xid.')}" if name.startswith("xid.") else ""
    if known is None:
        return number or name
    return f"{number}: {known.title}" if number else known.title


def conditions_of(text: str) -> Conditions:
    """Read conditions in the form of the preset files. Raises BadRule."""
    given: dict[str, Any] = {}
    details: dict[str, str] = {}
    for word in text.split():
        key, equals, value = word.partition("=")
        if not equals or not (value or key.startswith("details.")):
            raise BadRule(f"{word} is no condition: write name=value.")
        if key.startswith("details."):
            details[key.removeprefix("details.")] = value
        elif key == "same":
            given[key] = tuple(value.split("+"))
        elif key in _NUMBERS:
            try:
                given[key] = _NUMBERS[key](value)
            except ValueError:
                raise BadRule(f"{key}={value}: that is no number.") from None
        elif key in ("driver_at_least", "driver_below"):
            given[key] = value
        else:
            raise BadRule(f"There is no condition {key}: use {', '.join(CONDITION_NAMES)} or details.NAME.")
    return Conditions(details=details, **given)


def conditions_text(conditions: Conditions) -> str:
    """The inverse of `conditions_of`."""
    plain = Conditions()
    words = []
    for name in CONDITION_NAMES:
        value = getattr(conditions, name)
        if value != getattr(plain, name):
            words.append(f"{name}={'+'.join(value) if name == 'same' else _number(value)}")
    return " ".join(
        [*words, *(f"details.{key}={value}" for key, value in sorted(conditions.details.items()))]
    )


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) and abs(value) < 1e6 else str(value)


_NUMBERS: Mapping[str, Any] = {
    "count": int,
    "window_seconds": float,
    "value_at_least": float,
    "value_below": float,
    "alone_seconds": float,
}
CONDITION_NAMES = (
    *("count", "window_seconds", "same", "value_at_least", "value_below"),
    *("alone_seconds", "driver_at_least", "driver_below"),
)


@cache
def _read(name: str) -> tuple[FaultRule, ...]:
    return rules_of(_rows("presets", f"{name}.csv"), name=name)


def rules_of(rows: Iterable[Mapping[str, str]], *, name: str) -> tuple[FaultRule, ...]:
    """Rules in the form of the files here, named after `name`. Raises BadRule, which says where."""
    rules = []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        try:
            rules.append(_rule_of(row, name, seen))
        except KeyError as error:
            raise BadRule(f"Rule {number} has no column {error}.") from None
        except ValueError as error:
            raise BadRule(f"Rule {number}: {error}") from None
    return tuple(rules)


def _rule_of(row: Mapping[str, str], name: str, seen: dict[str, int]) -> FaultRule:
    fault = row["fault"]
    seen[fault] = seen.get(fault, 0) + 1
    if fault == RECOVERY_ACTION:
        suffix = f"-{row['conditions'].removeprefix('details.action=')}"
    else:
        suffix = f"-{seen[fault]}" if seen[fault] > 1 else ""
    return FaultRule(
        name=f"{name}-{fault}{suffix}",
        fault=fault,
        conditions=conditions_of(row["conditions"]),
        severity=Severity(row["severity"]),
        ladder=tuple(RemediationAction(word.strip()) for word in row["ladder"].split(">")),
        drain=DrainLevel(row["drain"]),
        verification=Verification(row["verification"]),
        mode=Mode(row["mode"]),
        citation=Citation(source=row["source"], says=row["says"], is_inferred=row["inferred"] == "yes"),
    )


def _rows(*path: str) -> list[dict[str, str]]:
    text = files("gpu_health.policy").joinpath(*path).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text, newline="")))
