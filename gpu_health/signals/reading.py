"""What every source of GPU health gives: one frozen `GpuReading`. Standard library only, for the node agent.

A reading says what was seen, never how bad it is or what to do: that is judged (`gpu_health.judge`).
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Self

MAX_RAW = 2_000
MAX_DETAILS = 32
MAX_DETAIL = 400
LATEST = 32_503_680_000.0
"""The year 3000, in seconds since the epoch."""

_FAULT = re.compile(r"[a-z][a-z0-9_]{0,31}(\.[a-z0-9_]{1,48}){1,3}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_CONTROLS = dict.fromkeys(
    [*range(32), 127, *range(0x80, 0xA0), *range(0xD800, 0xE000)], "\N{REPLACEMENT CHARACTER}"
)
_BUS_ID = re.compile(r"(?:PCI:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.[0-7])?")


NOTHING: Mapping[str, str] = MappingProxyType({})
SOURCE_STATE = "source.state"
"""A fact: the source has just told all that is wrong with this device, or with the machine. What it told
before this start of it, and has not told again, is over."""
LEVEL = "level"
"""The detail of a fault that lasts until its source takes it back."""


class ReadingSource(StrEnum):
    KERNEL_LOG = "kernel_log"
    NVML = "nvml"
    DCGM = "dcgm"
    INFINIBAND = "infiniband"
    NODE_CONDITION = "node_condition"
    KUBERNETES_EVENT = "kubernetes_event"
    DEVICE_PLUGIN = "device_plugin"
    PROVIDER = "provider"
    CHECK = "check"
    REPORT = "report"
    """What the report itself shows, as the control plane gets it."""


class ReadingKind(StrEnum):
    FAULT = "fault"
    CLEARED = "cleared"
    """The fault of that name is gone: a condition that is false again, an event that is over."""
    FACT = "fact"
    """What a machine is rather than how it is: a driver's version, which GPU sits on which bus."""
    DETECTOR = "detector"
    """The source itself fails. Nothing is ever done on the strength of that."""


class ReadingClock(StrEnum):
    EPOCH = "epoch"
    BOOT = "boot"
    """Seconds since the machine's start: a kernel log without dates."""
    NONE = "none"


class BadReading(ValueError):
    """The document is no reading; the text names the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """A single observation.

    `fault` is a dotted lower-case name: `xid.79`, `sxid.fatal`, `ecc.double_bit`, `detector.dcgm`. `at` is
    in seconds of `clock`, 0 where there is none. `gpu_bus_id` is `0000:9b:00`, lower case and without a
    function; `gpu_uuid` is the driver's. `value` is in the unit that the fault's own text says. `raw` is what
    the source said, without control characters. `origin` names the place within the source, such as boot and
    sequence number of a kernel message: two readings of one origin are one. `boot` names the start of the
    machine in which it was seen, as the kernel does; empty where nobody knows.
    """

    source: ReadingSource
    fault: str
    kind: ReadingKind = ReadingKind.FAULT
    at: float = 0.0
    clock: ReadingClock = ReadingClock.NONE
    node: str = ""
    gpu_bus_id: str = ""
    gpu_uuid: str = ""
    value: float | None = None
    details: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    origin: str = ""
    boot: str = ""

    def detail(self, name: str) -> str:
        return next((value for key, value in self.details if key == name), "")

    @property
    def device(self) -> str:
        """The GPU, by its bus where that is known; empty: the whole machine."""
        return self.gpu_bus_id or self.gpu_uuid

    @property
    def session(self) -> str:
        """The run of its source: of the agent, or of the kernel."""
        return self.origin.partition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready and without what is empty; `from_dict` is its inverse."""
        told: dict[str, Any] = {"source": str(self.source), "fault": self.fault, "kind": str(self.kind)}
        told |= {"at": self.at, "clock": str(self.clock)}
        for name in ("node", "gpu_bus_id", "gpu_uuid", "raw", "origin", "boot"):
            if value := getattr(self, name):
                told[name] = value
        if self.value is not None:
            told["value"] = self.value
        if self.details:
            told["details"] = dict(self.details)
        return told

    @classmethod
    def from_dict(cls, data: object) -> Self:
        """Raises BadReading naming the first field that is wrong; fields that are not known are ignored."""
        if not isinstance(data, Mapping):
            raise BadReading("a reading must be an object")
        text = {name: _text(data, name, most) for name, most in _TEXTS.items()}
        if not _FAULT.fullmatch(text["fault"]):
            raise BadReading("fault must be a dotted lower-case name, such as xid.79")
        if text["gpu_bus_id"] and bus_id(text["gpu_bus_id"]) != text["gpu_bus_id"]:
            raise BadReading("gpu_bus_id must be of the form 0000:9b:00")
        value = data.get("value")
        return cls(
            source=_word(data, "source", ReadingSource),
            kind=_word(data, "kind", ReadingKind, ReadingKind.FAULT),
            clock=_word(data, "clock", ReadingClock, ReadingClock.NONE),
            at=_number(data.get("at", 0.0), "at", low=0.0, high=LATEST),
            value=None if value is None else _number(value, "value"),
            details=_details(data.get("details", {})),
            **text,
        )


_TEXTS = {
    "fault": 120,
    "node": 253,
    "gpu_bus_id": 20,
    "gpu_uuid": 80,
    "raw": MAX_RAW,
    "origin": 120,
    "boot": 100,
}


def bus_id(text: str) -> str:
    """`0000:9b:00` of any way to write it (`PCI:0000:9B:00.0`, `9b:00.0`); empty: it is none."""
    found = _BUS_ID.fullmatch(text.strip())
    if found is None:
        return ""
    domain, bus, device = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def details(given: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Sorted, what is empty left out."""
    return tuple(
        sorted(
            (key, clean(str(value), MAX_DETAIL)) for key, value in given.items() if value not in ("", None)
        )
    )


def clean(text: str, most: int = MAX_RAW) -> str:
    """Return text fit to keep and show: no control characters, at most `most` long."""
    text = text[:most]
    return (text if text.isprintable() else text.translate(_CONTROLS)).strip()


def _text(data: Mapping[Any, Any], name: str, most: int) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise BadReading(f"{name} must be text of at most {most} characters")
    return clean(value, most)


def _word(data: Mapping[Any, Any], name: str, words: type[StrEnum], default: StrEnum | None = None) -> Any:
    value = data.get(name, default)
    if not isinstance(value, str) or value not in set(words):
        raise BadReading(f"{name} must be one of {', '.join(words)}")
    return words(value)


def _number(value: object, name: str, *, low: float = -math.inf, high: float = math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadReading(f"{name} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and low <= number <= high):
        raise BadReading(f"{name} must be a finite number{f' from {low:g} to {high:g}' if low == 0 else ''}")
    return number


def _details(given: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping) or len(given) > MAX_DETAILS:
        raise BadReading(f"details must be an object of at most {MAX_DETAILS} texts")
    pairs: Iterable[tuple[Any, Any]] = given.items()
    for key, value in pairs:
        if not isinstance(key, str) or not _NAME.fullmatch(key):
            raise BadReading("names of details must be lower-case words")
        if not isinstance(value, str) or len(value) > MAX_DETAIL:
            raise BadReading(f"details.{key} must be text of at most {MAX_DETAIL} characters")
    return details(given)
