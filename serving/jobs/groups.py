"""Groups of a pool's workers: those online serve requests, those offline take jobs. Pure."""

import dataclasses
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class WorkerGroup(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"


@dataclass(frozen=True, kw_only=True)
class GroupAssignment:
    """Set by the control plane, read by the workers.

    offline: names of the workers that take jobs; all others take none. wait_seconds: for which a job that
    runs may go on after its worker went online; then it goes back into the queue. fence: a lower one is late.
    """

    offline: frozenset[str]
    wait_seconds: float = 0.0
    fence: int = 0

    def group_of(self, worker: str) -> WorkerGroup:
        return WorkerGroup.OFFLINE if worker in self.offline else WorkerGroup.ONLINE

    def encode(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "offline": sorted(self.offline)})

    @classmethod
    def decode(cls, text: str | bytes) -> Self:
        """Ignores keys of a newer release."""
        data = json.loads(text)
        return cls(offline=frozenset(data["offline"]), wait_seconds=data["wait_seconds"], fence=data["fence"])
