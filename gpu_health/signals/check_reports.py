"""What our check Jobs found: the report that `python -m serving.checks gpu --json` writes.

A figure that is right again clears its fault. What computed or remembered wrongly is not cleared by a check
that happened to pass.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_health.signals.reading import (
    GpuReading,
    ReadingClock,
    ReadingKind,
    ReadingSource,
    bus_id,
    clean,
    details,
)

MAX_CHECKS = 500
FAULTS: Mapping[str, str] = {
    "matrix_products": "check.data_corruption",
    "same_as_others": "check.data_corruption",
    "memory_patterns": "check.memory_patterns",
    "memory_bandwidth": "check.memory_bandwidth",
    "host_to_gpu": "check.pcie_bandwidth",
    "gpu_to_host": "check.pcie_bandwidth",
    "compute": "check.compute",
    "clock_under_load": "check.clock_under_load",
    "all_reduce": "check.nccl_bandwidth",
    "dcgm_diagnostic": "check.dcgm_diagnostic",
    "answers": "check.no_answer",
}
"""By the name of the check. A name that is not here is a newer program's: it is left alone."""
CLEARS = frozenset({"memory_bandwidth", "compute", "clock_under_load", "all_reduce"})
BOTH_WAYS = ("host_to_gpu", "gpu_to_host")
"""Clear their fault together only."""


class NotAReport(ValueError):
    """The document is no report of the checks; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFound:
    """A check as it was reported; `measured` and `expected` are in `unit`."""

    name: str
    outcome: str
    words: str
    gpu_uuid: str = ""
    gpu_bus_id: str = ""
    port: str = ""
    measured: float | None = None
    expected: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class CheckedGpu:
    uuid: str
    bus_id: str = ""

    def __str__(self) -> str:
        return f"{self.uuid} ({self.bus_id})" if self.bus_id else self.uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    level: int
    passed: bool
    seconds: float
    devices: tuple[str, ...]
    gpus: tuple[CheckedGpu, ...] = ()
    """That were looked at."""
    checks: tuple[CheckFound, ...]

    @property
    def failed(self) -> list[CheckFound]:
        return [check for check in self.checks if check.outcome == "failed"]

    @property
    def inconclusive(self) -> list[CheckFound]:
        return [check for check in self.checks if check.outcome == "inconclusive"]

    @property
    def warned(self) -> list[CheckFound]:
        return [check for check in self.checks if check.outcome == "warned"]


def read_report(told: object) -> CheckReport:
    """Raises NotAReport."""
    if not isinstance(told, Mapping):
        raise NotAReport("a report is an object")
    checks = told.get("checks")
    if not isinstance(checks, list) or len(checks) > MAX_CHECKS:
        raise NotAReport(f"checks must be a list of at most {MAX_CHECKS}")
    passed, devices = told.get("passed"), told.get("devices", [])
    if not isinstance(passed, bool):
        raise NotAReport("passed must be true or false")
    gpus = told.get("gpus", [])
    if not isinstance(devices, list):
        raise NotAReport("devices must be a list")
    if not isinstance(gpus, list) or not all(isinstance(gpu, Mapping) for gpu in gpus):
        raise NotAReport("gpus must be a list of objects")
    found = tuple(map(_check, checks))
    if passed and any(check.outcome == "failed" for check in found):
        raise NotAReport("it passed, and one of its checks failed")
    return CheckReport(
        level=int(_number(told, "level") or 0),
        passed=passed,
        seconds=_number(told, "seconds") or 0.0,
        devices=tuple(clean(str(one), 100) for one in devices[:64]),
        gpus=tuple(_gpu(gpu) for gpu in gpus[:64]),
        checks=found,
    )


def readings(report: CheckReport, *, at: float, origin: str, node: str = "") -> list[GpuReading]:
    """`origin`: of the report, so that it counts once; `at`: seconds since the epoch."""
    told: dict[tuple[str, str, str], GpuReading] = {}
    for check in report.checks:
        fault = FAULTS.get(check.name)
        if fault is None or check.outcome not in ("failed", "passed"):
            continue
        is_fault = check.outcome == "failed"
        if not is_fault and not _clears(check, report):
            continue
        kind = ReadingKind.FAULT if is_fault else ReadingKind.CLEARED
        key = (fault, check.gpu_bus_id or check.gpu_uuid, str(kind))
        more = {"check": check.name, "unit": check.unit, "level": report.level}
        if check.expected is not None:
            more["expected"] = f"{check.expected:g}"
        told.setdefault(
            key,
            GpuReading(
                source=ReadingSource.CHECK,
                fault=fault,
                kind=kind,
                at=at,
                clock=ReadingClock.EPOCH,
                node=node,
                gpu_bus_id=check.gpu_bus_id,
                gpu_uuid=check.gpu_uuid,
                value=check.measured,
                details=details(more),
                raw=check.words,
                origin=f"{origin}/{len(told)}",
            ),
        )
    return list(told.values())


def _clears(check: CheckFound, report: CheckReport) -> bool:
    if check.name in BOTH_WAYS:
        ways = [one for one in _of(report, check) if one.name in BOTH_WAYS]
        return len(ways) == len(BOTH_WAYS) and all(one.outcome == "passed" for one in ways)
    return check.name in CLEARS


def _of(report: CheckReport, check: CheckFound) -> Iterator[CheckFound]:
    return (one for one in report.checks if one.gpu_uuid == check.gpu_uuid)


def _check(told: object) -> CheckFound:
    if not isinstance(told, Mapping):
        raise NotAReport("a check is an object")
    name, outcome = told.get("name"), told.get("outcome")
    if not isinstance(name, str) or not isinstance(outcome, str):
        raise NotAReport("a check has a name and an outcome")
    return CheckFound(
        name=clean(name, 50),
        outcome=outcome,
        words=clean(str(told.get("words", ""))),
        gpu_uuid=clean(str(told.get("gpu_uuid", "")), 80),
        gpu_bus_id=bus_id(str(told.get("gpu_bus_id", ""))),
        port=clean(str(told.get("port", "")), 80),
        measured=_number(told, "measured"),
        expected=_number(told, "expected"),
        unit=clean(str(told.get("unit", "")), 30),
    )


def _gpu(told: Mapping[Any, Any]) -> CheckedGpu:
    return CheckedGpu(clean(str(told.get("uuid", "")), 80), bus_id(str(told.get("bus_id", ""))))


def _number(told: Mapping[Any, Any], name: str) -> float | None:
    value = told.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAReport(f"{name} must be a number")
    number = float(value)
    if not math.isfinite(number):
        raise NotAReport(f"{name} must be a finite number")
    return number
