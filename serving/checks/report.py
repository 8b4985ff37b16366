"""The result of one check of a device, and the report of all of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MOST_WORDS = 400


class CheckOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    MEASURED = "measured"
    """There is a figure, and nobody says what it should be: an unknown model of GPU."""
    INCONCLUSIVE = "inconclusive"
    """The host was too busy to tell a slow GPU from a late order: neither passed nor failed."""
    WARNED = "warned"
    """It found something that is no fault yet: neither passed nor failed."""
    SKIPPED = "skipped"
    """It could not be tried here; nothing follows from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCheck:
    """One check of one GPU, of all together (`gpu_uuid` blank), or of a `port` of the network.

    `measured` and `expected` are in `unit`; `expected` is the least, or for a `unit` of faults the most, that
    passes. `words`: a sentence for whoever decides.
    """

    name: str
    outcome: CheckOutcome
    words: str
    gpu_uuid: str = ""
    gpu_bus_id: str = ""
    port: str = ""
    measured: float | None = None
    expected: float | None = None
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, without what is empty."""
        told: dict[str, Any] = {"name": self.name, "outcome": str(self.outcome)}
        for name in ("gpu_uuid", "gpu_bus_id", "port", "measured", "expected", "unit"):
            if (value := getattr(self, name)) not in ("", None):
                told[name] = value
        return told | {"words": self.words[:MOST_WORDS]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`devices`: what was looked at, by the names that their driver gives. `gpus`: `{uuid, bus_id}` of each
    GPU among them, so that nobody takes a check of seven for one of the eighth."""

    level: int
    devices: Sequence[str]
    seconds: float
    gpus: Sequence[Mapping[str, str]] = field(default=())
    checks: Sequence[DeviceCheck] = field(default=())

    @property
    def passed(self) -> bool:
        """Nothing failed or was inconclusive, and something was tried."""
        tried = {check.outcome for check in self.checks} - {CheckOutcome.SKIPPED}
        return bool(tried) and tried.isdisjoint({CheckOutcome.FAILED, CheckOutcome.INCONCLUSIVE})

    @property
    def failed(self) -> list[DeviceCheck]:
        return [check for check in self.checks if check.outcome is CheckOutcome.FAILED]

    def to_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "passed": self.passed,
            "seconds": round(self.seconds, 1),
            "devices": list(self.devices),
            "gpus": [dict(gpu) for gpu in self.gpus],
            "checks": [check.to_dict() for check in self.checks],
        }

    def lines(self) -> list[str]:
        """Return lines for people: one per check, those that failed first, then the verdict."""
        ordered = sorted(self.checks, key=lambda check: check.outcome is not CheckOutcome.FAILED)
        told = [
            f"{check.outcome:13}{check.gpu_bus_id or check.port:13}{check.name:22} {check.words}"
            for check in ordered
        ]
        counts = Counter(check.outcome for check in self.checks)
        verdict = ", ".join(f"{counts[outcome]} {outcome}" for outcome in CheckOutcome if counts[outcome])
        if not counts.keys() - {CheckOutcome.SKIPPED}:
            verdict = "nothing could be checked"
        return [*told, f"Level {self.level} in {self.seconds:.0f} s on {', '.join(self.devices)}: {verdict}."]
