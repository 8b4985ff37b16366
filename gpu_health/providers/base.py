"""What healing asks of the provider of a machine."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from common.errors import Unavailable


class Deed(StrEnum):
    REBOOT = "reboot"
    POWER_CYCLE = "power_cycle"
    REPLACE = "replace"


class DeedState(StrEnum):
    """The state of a deed under its op_key, as the provider reports it."""

    NEVER = "never"
    """Nobody has ordered it."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The provider cannot say."""


@dataclass(frozen=True, slots=True)
class DeedStatus:
    state: DeedState
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMachine:
    name: str
    uid: str
    provider_id: str
    address: str
    cluster: str
    provider: str

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class ProviderAway(Unavailable):
    """The provider does not answer; it may or may not have heard the request."""


class MachineProvider(Protocol):
    """A provider of machines. It must treat one `op_key` as one deed, however often it is ordered, and
    answer each call within 15 s.
    """

    def order(self, deed: Deed, machine: ProviderMachine, op_key: str, reason: str) -> DeedStatus:
        """Begin it. Raises ProviderAway."""

    def status(self, deed: Deed, machine: ProviderMachine, op_key: str) -> DeedStatus:
        """Return how far the deed is. Raises ProviderAway."""


def told_of(document: object) -> DeedStatus:
    """Read `{"state": "running", "words": "..."}`; anything else gives UNKNOWN."""
    if isinstance(document, dict) and document.get("state") in set(DeedState):
        return DeedStatus(DeedState(document["state"]), str(document.get("words", ""))[:500])
    return DeedStatus(DeedState.UNKNOWN, "The provider's answer names no state.")
