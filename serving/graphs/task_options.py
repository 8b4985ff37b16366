"""Options of the tasks of a graph."""

from dataclasses import dataclass

from serving.graphs.description import (
    DEVICES,
    LARGEST_BATCH,
    LONGEST_WAIT_MS,
)
from serving.graphs.errors import refused


@dataclass(frozen=True, kw_only=True)
class Batch:
    """At most `max_size` items run together; the first of them waits `max_wait_ms` for others at most."""

    max_size: int = 8
    max_wait_ms: float = 20.0

    def __post_init__(self) -> None:
        if not 1 <= self.max_size <= LARGEST_BATCH or not 0 <= self.max_wait_ms <= LONGEST_WAIT_MS:
            raise refused(
                f"Batch: max_size is from 1 to {LARGEST_BATCH}, max_wait_ms to {LONGEST_WAIT_MS:.0f}"
            )


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options of a task. `retries`: of an item whose call raised; what a process that died was working on is
    tried again in any case. `timeout_seconds`: of one call, after which its process is replaced. `cores`:
    that one call uses. `model`: MODEL:VERSION of the registry whose files `load` is given."""

    batch: Batch = Batch(max_size=1, max_wait_ms=0.0)
    device: str = "any"
    model: str = ""
    retries: int = 0
    timeout_seconds: float = 300.0
    cores: int = 1

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise refused(f"device must be one of {', '.join(DEVICES)}, not {self.device!r}")
        if not (0 <= self.retries <= 100 and 0 < self.timeout_seconds <= 86_400 and self.cores >= 1):
            raise refused("retries are from 0 to 100, timeout_seconds to 86400, cores from 1")
