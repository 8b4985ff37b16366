"""What a run will need of its host: estimated and shown before it starts. Pure but for the look at memory."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optimization.recipes import OptimizationRecipe

GB = 10**9
BASE_MEMORY_BYTES = 700_000_000
"""Of Python with torch and transformers loaded."""
BASE_SECONDS = 20.0
ADDRESS_SPACE = 16 * GB
"""Beyond its memory: libraries and threads reserve more than they use."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """`memory_bytes`, `disk_bytes` and `seconds` are estimates, `wall_seconds` ends the job."""

    memory_bytes: int
    disk_bytes: int
    seconds: float
    wall_seconds: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "RunLimits":
        return cls(**told)

    @property
    def container_bytes(self) -> int:
        """Limit of a container's memory, where another process fetches and sends the files."""
        return self.memory_bytes * 3 // 2 + GB

    @property
    def address_bytes(self) -> int:
        """Limit of the process's address space."""
        return 2 * self.memory_bytes + ADDRESS_SPACE


def limits_of(recipe: OptimizationRecipe, *, parent_bytes: int, hours: float) -> RunLimits:
    """Estimate from the size of the parent's files."""
    return RunLimits(
        memory_bytes=BASE_MEMORY_BYTES + int(recipe.memory_factor * parent_bytes),
        # Output, and again as much when it is stored.
        disk_bytes=2 * parent_bytes,
        seconds=BASE_SECONDS + recipe.seconds_per_gb * parent_bytes / GB,
        wall_seconds=hours * 3600,
    )


def free_memory_bytes() -> int:
    """Return what new processes of this host may take without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
