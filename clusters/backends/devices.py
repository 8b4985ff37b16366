"""The interface of clusters whose driver divides GPUs for pods that claim a part of one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPart:
    """A part of a card, or all of it, that a claim holds.

    profile: of MIG; empty: the whole card. begin: first of its memory slices. users: `NAMESPACE/NAME` of the
    pods that have it.
    """

    profile: str
    begin: int
    claim: str
    users: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCard:
    """A card that a driver offers whole, and maybe in parts.

    room: how many parts of each profile could still stand on it, if no other were placed; empty: it is not
    offered in parts.
    """

    machine: str
    index: int
    uuid: str
    product: str
    memory_mib: int
    held: tuple[ClaimedPart, ...] = ()
    room: Mapping[str, int]


class DeviceClaims(Protocol):
    """Cards whose parts are made when a pod claims them.

    Raises ClusterUnreachable, and OperationUnsupported without the rights.
    """

    def observe(self) -> tuple[ObservedCard, ...]:
        """Return the cards that are offered so; none where the cluster has no such driver."""

    def put_template(self, name: str, profile: str, *, uuid: str = "") -> None:
        """Let pods name this template of a claim for a part of that profile; `uuid`: of that card alone."""

    def has_template(self, name: str) -> bool: ...

    def remove_template(self, name: str) -> None:
        """Remove a template; claims that were made of it stay with their pods. Gone already is no error."""


@runtime_checkable
class ClaimsDevices(Protocol):
    """A backend whose cluster may have such a driver."""

    @property
    def devices(self) -> DeviceClaims: ...
