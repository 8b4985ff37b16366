"""GPU memory that a worker holds: of its own processes, or in a pod of the cards that it alone sees."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from serving.devices import ask_driver

EVERY_SECONDS = 10.0
IN_POD = "KUBERNETES_SERVICE_HOST"
"""Variable of each pod. The driver's tool lists no processes there, whose numbers are the machine's."""


class GpuMemory:
    """Asks the driver's tool every ten seconds. `mib`: None while it has told nothing of this worker."""

    def __init__(self, pid: int | None = None, environment: Mapping[str, str] = os.environ) -> None:
        self._pid = pid or os.getpid()
        self._is_pod = IN_POD in environment
        self.mib: int | None = None

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(EVERY_SECONDS)

    async def look(self) -> None:
        if self._is_pod:
            used = [_whole(row) for row in (await ask_driver("--query-gpu=memory.used")).splitlines()]
            known = [one for one in used if one is not None]
            self.mib = sum(known) if known and len(known) == len(used) else None
            return
        rows = (await ask_driver("--query-compute-apps=pid,used_gpu_memory")).splitlines()
        mine = descendants(self._pid) if rows else frozenset()
        parts = [row.partition(",") for row in rows]
        held = [size for pid, _, mib in parts if _whole(pid) in mine and (size := _whole(mib)) is not None]
        self.mib = sum(held) if held else None


def descendants(pid: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Return the process and all that it began, as far as they are there."""
    parents: dict[int, int] = {}
    for stat in proc.glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
    found = {pid}
    while new := {child for child, parent in parents.items() if parent in found} - found:
        found |= new
    return frozenset(found)


def _whole(text: str) -> int | None:
    """Return the number; None for `[N/A]`, which drivers say of MIG and of some virtual GPUs."""
    word = text.strip()
    return int(word) if word.isdecimal() else None
