"""The machine as it is played: a file with its GPUs, and one with what its kernel says."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STATE, KMSG = "machine.json", "kmsg"
DRIVER, MODEL = "570.86.15", "NVIDIA H100 80GB HBM3"
MOST_GPUS, MOST_LINES = 16, 32
DOMAIN = 0x0D11
"""Of PCI: no real GPU has an address there, so that none is mistaken for a played one."""

SETTINGS = frozenset(
    {
        *("lost", "reset_required", "recovery_action", "ecc_double_bit", "ecc_single_bit", "sram_threshold"),
        *("row_remap_uncorrectable", "row_remap_pending", "row_remap_failed", "clock_reasons", "margin"),
        *("pcie_width", "pcie_generation", "pcie_replays", "links_down", "persistence_off", "missing"),
    }
)
"""What may be other than on a healthy GPU."""


class BadOrder(ValueError):
    """The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Play:
    """Simulated at the moment. `settings`: of `SETTINGS`, by the index of a GPU."""

    drill: int
    gpus: int
    settings: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    broken: frozenset[int] = frozenset()
    """Indexes of GPUs that no repair has mended yet."""

    def of(self, index: int, name: str, healthy: int = 0) -> int:
        return int(self.settings.get(index, {}).get(name, healthy))


def read_play(directory: Path) -> Play | None:
    """Read the play; None when nothing is played."""
    try:
        document = json.loads((directory / STATE).read_bytes())
        settings = {int(index): dict(found) for index, found in document["settings"].items()}
        return Play(int(document["drill"]), int(document["gpus"]), settings, frozenset(document["broken"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def bus_of(index: int) -> str:
    return f"{DOMAIN:04x}:{0x1B + 0x0C * index:02x}:00"


def uuid_of(index: int) -> str:
    return f"GPU-d2111000-0000-4000-8000-{index:012x}"


def carry_out(directory: Path, order: object) -> dict[str, Any]:
    """Carry out an order of the package's docstring; return the job's result. Raises BadOrder, OSError."""
    if not isinstance(order, Mapping) or not isinstance(order.get("drill"), int):
        raise BadOrder("An order names its drill.")
    drill, what = order["drill"], order.get("order", "play")
    present = read_play(directory)
    if present is not None and present.drill != drill:
        present = None
    if what == "play":
        return _play(directory, order, present)
    if what == "over":
        return _end(directory, drill)
    if what == "repair":
        return _repair(directory, order, present)
    if what == "check":
        return _check(order, present)
    raise BadOrder("order must be play, repair, check or over.")


def _play(directory: Path, order: Mapping[str, Any], present: Play | None) -> dict[str, Any]:
    gpus, gpu, nvml, lines = _checked(order)
    directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    if present is None:
        # What another drill has left is of no use to this one.
        (directory / KMSG).unlink(missing_ok=True)
    settings = {**(present.settings if present else {}), gpu: nvml}
    broken = (present.broken if present else frozenset()) | ({gpu} if order.get("breaks") else frozenset())
    _write(directory, Play(order["drill"], gpus, settings, broken))
    at = time.time()
    with (directory / KMSG).open("ab") as kernel:
        kernel.write(b"".join(_records(lines, gpu)))
    return {"done": True, "words": "It is played.", "at": at}


def _repair(directory: Path, order: Mapping[str, Any], present: Play | None) -> dict[str, Any]:
    """Play what an action would have done. `heals`: the faults are gone; else they stay."""
    if present is not None and order.get("heals"):
        _write(directory, Play(present.drill, present.gpus))
    return {"done": True, "words": f"{order.get('action', 'The action')} is played."}


def _check(order: Mapping[str, Any], present: Play | None) -> dict[str, Any]:
    """Report like a check whether the played GPUs are whole. `finds`: the check of that name fails."""
    if finds := order.get("finds"):
        bus = bus_of(int(order.get("gpu", 0)))
        found = {"name": str(finds), "outcome": "failed", "gpu_bus_id": bus, "words": "Played: it differs."}
        return {"level": 1, "passed": False, "seconds": 0.0, "devices": [MODEL], "checks": [found]} | {
            "at": time.time()
        }
    gpus, _gpu, _nvml, _lines = _checked(
        {"gpus": present.gpus} if present else {"gpus": order.get("gpus", 8)}
    )
    broken = present.broken if present else frozenset()
    checks = [
        {
            "name": str(name),
            "outcome": "failed" if index in broken else "passed",
            "words": f"Played: GPU {index} is {'still broken' if index in broken else 'whole'}.",
            "gpu_uuid": uuid_of(index),
            "gpu_bus_id": bus_of(index),
        }
        for index in range(gpus)
        for name in order.get("checks", ["played_gpus"])
    ]
    return {
        "level": 1,
        "passed": not broken,
        "seconds": 0.0,
        "devices": [MODEL] * gpus,
        "gpus": [{"uuid": uuid_of(index), "bus_id": bus_of(index)} for index in range(gpus)],
        "checks": checks,
    }


def _end(directory: Path, drill: int) -> dict[str, Any]:
    found = read_play(directory)
    if found is None or found.drill == drill:
        for name in (STATE, KMSG):
            (directory / name).unlink(missing_ok=True)
    return {"done": True, "words": "Nothing is played any more."}


def _write(directory: Path, play: Play) -> None:
    document = {
        "drill": play.drill,
        "gpus": play.gpus,
        "settings": {str(index): dict(found) for index, found in play.settings.items()},
        "broken": sorted(play.broken),
    }
    draft = directory / f"{STATE}.{os.getpid()}"
    draft.write_text(json.dumps(document))
    draft.replace(directory / STATE)


def _checked(order: Mapping[str, Any]) -> tuple[int, int, dict[str, int], list[str]]:
    gpus, gpu, nvml, lines = (
        order.get("gpus", 8), order.get("gpu", 0), order.get("nvml", {}), order.get("kernel", [])
    )  # fmt: skip
    if not isinstance(gpus, int) or not 1 <= gpus <= MOST_GPUS:
        raise BadOrder(f"gpus must be from 1 to {MOST_GPUS}.")
    if not isinstance(gpu, int) or not 0 <= gpu < gpus:
        raise BadOrder(f"gpu must be from 0 to {gpus - 1}.")
    if not isinstance(nvml, dict) or not set(nvml) <= SETTINGS:
        raise BadOrder(f"nvml has settings of: {', '.join(sorted(SETTINGS))}.")
    if not all(isinstance(value, int) for value in nvml.values()):
        raise BadOrder("Settings of nvml are whole numbers.")
    if (
        not isinstance(lines, list)
        or len(lines) > MOST_LINES
        or not all(isinstance(one, str) for one in lines)
    ):
        raise BadOrder(f"kernel must be at most {MOST_LINES} lines.")
    return gpus, gpu, nvml, lines


def _records(lines: list[str], gpu: int) -> list[bytes]:
    """Write records as /dev/kmsg has them: level 4 of the kernel, a number of its own, µs since the start."""
    number, at = time.time_ns() // 1_000, int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    said = [line.replace("{bus}", bus_of(gpu)).replace("\n", " ") for line in lines]
    return [f"4,{number + index},{at + index},-;{line}\n".encode() for index, line in enumerate(said)]
