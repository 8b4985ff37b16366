"""What Slipway asks of whatever runs model workers, in our words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""Of deployments."""


class Fence(NamedTuple):
    """Order of writers of one deployment: a later holder, or a later turn of the same holder, wins.

    `holder` is the id of the deployment's row, `turn` its fence in the reconcile kernel.
    """

    holder: int
    turn: int


class BackendError(Exception):
    """Anything a cluster can refuse or fail; the message is for people."""


class StaleFence(BackendError):
    """A later writer has already set this deployment."""


class ClusterUnreachable(BackendError):
    """The cluster does not answer, or not in time."""


class Misconfigured(BackendError):
    """What the row says of how to reach the cluster cannot be meant; the message says what is right."""


class CannotRun(BackendError):
    """The cluster will never run this as it is: no free port, no such engine, a name it cannot take."""


class UnknownWorker(BackendError):
    """There is no such worker, and no log of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What a cluster's row says of how to reach it. Each kind knows its own settings and secrets."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name, unsealed."""


class ObservedState(StrEnum):
    """The same words as clusters.states.WorkerState."""

    STARTING = "starting"
    READY = "ready"
    """It said so itself a moment ago."""
    DRAINING = "draining"
    FAILED = "failed"
    """Its engine failed, or its process keeps ending by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """The wish: exactly `replicas` workers, each of them so. Workers are named `<name>-<ordinal>`, from 0."""

    name: str
    """As `NAME`; never used for another deployment."""
    service: str
    version_label: str
    """`model:version`."""
    model_dir: Path
    engine: str
    replicas: int
    slots: int = 4
    """Requests that one worker works on at the same time."""
    device: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The engine's; JSON."""
    image: str = ""
    """What a worker's container is made from, `repository@sha256:...`; plain processes have none."""
    gpus_per_worker: int = 1
    """Set aside for each worker where there are GPUs and the device is not `cpu`."""
    heartbeat_url: str = ""
    heartbeat_token_file: str = ""
    grace_seconds: float = 30.0
    """How long a worker that is asked to end may go on with the requests that it has."""

    def __post_init__(self) -> None:
        """Raises CannotRun for what no cluster could run."""
        if not NAME.fullmatch(self.name):
            raise CannotRun(
                f"{self.name!r} cannot name a deployment: lower-case letters, digits and hyphens."
            )
        if self.replicas < 0:
            raise CannotRun(f"{self.name} cannot have {self.replicas} workers.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorker:
    """One worker as it really is."""

    name: str
    ordinal: int
    node: str
    """Name of its machine, as in `ObservedNode`; empty while it has none."""
    address: str
    port: int
    pid: int | None
    """None while there is no process."""
    state: ObservedState
    since: datetime
    """Start of the process; its end when there is none."""
    restarts: int = 0
    """Of the process, since the cluster has run it; falls when the cluster itself starts anew."""
    reason: str = ""
    """Why it is not ready, or how its last process ended, in words."""


class GpuSharing(StrEnum):
    """The same words as clusters.states.GpuSharing."""

    NONE = ""
    MIG = "mig"
    MPS = "mps"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGpu:
    uuid: str
    """As the driver gives it; the card keeps it in whatever slot of whatever machine."""
    index: int
    name: str
    memory_bytes: int
    driver: str = ""
    """Version of the driver that runs it; empty: not known."""
    serial: str = ""
    pci_bus_id: str = ""
    """`00000000:3B:00.0`, as in the kernel's messages about it; empty: not known."""
    sharing: GpuSharing = GpuSharing.NONE


class TaintEffect(StrEnum):
    """As in Kubernetes."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """Keeps workers that do not tolerate it off a machine."""

    key: str
    effect: TaintEffect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a machine, or an agent on it, says of itself; types and polarity as in Kubernetes."""

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Cordon:
    """New workers are kept off a machine; those that run stay."""

    by: str = ""
    """Whoever did it; empty: somebody past Slipway."""
    reason: str = ""
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """A machine that can run workers, as it was read just now."""

    uid: str
    """Given by the cluster for as long as it is this machine, through restarts and another name."""
    name: str
    address: str
    cpu_count: int
    memory_bytes: int
    boot_id: str = ""
    """Another one after each start of the machine; empty: not known."""
    provider_id: str = ""
    """What the provider of the machine calls it; empty where there is none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    cordon: Cordon | None = None
    gpus: tuple[ObservedGpu, ...] | None = ()
    """None when they could not be read, which is no word on whether they are there."""
    problem: str = ""
    """What of it could not be read, and why."""

    @property
    def is_ready(self) -> bool:
        return all(one.status == "True" for one in self.conditions if one.type == "Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadNode:
    """A machine that the cluster has, and that could not be read."""

    uid: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class Health:
    ok: bool
    detail: str


class ClusterBackend(Protocol):
    """Every method answers within seconds, waits for no worker, and raises ClusterUnreachable."""

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        """Make the deployment be `spec`: missing workers start, surplus and outdated ones drain and end.

        Absolute and idempotent. A seat is taken again when its last worker has ended: apply again while
        `observe` does not show what was asked for. Raises StaleFence, CannotRun.
        """

    def remove(self, deployment: str, *, fence: Fence) -> None:
        """Drain and end all its workers; they are gone when `observe` shows none. Gone already is no error.

        Raises StaleFence.
        """

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        """The workers that there really are, by ordinal; none for a deployment that is unknown."""

    def logs(self, worker: str, *, lines: int) -> str:
        """The end of what a worker wrote, the restarts before it included. Raises UnknownWorker."""

    def nodes(self) -> tuple[ObservedNode | UnreadNode, ...]:
        """The machines of the cluster. One that cannot be read is an answer, not an error of the cluster."""

    def health(self) -> Health:
        """Whether the cluster takes orders. Never raises."""
