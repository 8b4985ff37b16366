"""The interface of backends that run model workers, in our words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from clusters.backends.abilities import BackendAbilities
from clusters.backends.labels import label_faults
from clusters.backends.placement import (
    Placement,
    Resources,
    SecretKey,
    Taint,
    faults_in,
    faults_of,
)
from clusters.backends.servers import ModelServer
from common.fence import Fence

if TYPE_CHECKING:
    from clusters.backends.checks import ClusterCheck
    from clusters.backends.node_operations import NodeOperations
    from clusters.backends.observed_pods import ObservedPods

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""Of deployments."""
SECRET_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")


class BackendError(Exception):
    """Anything a cluster can refuse or fail; the message is for people."""


class StaleDeploymentFence(BackendError):
    """A later writer has already set this deployment."""


class ClusterUnreachable(BackendError):
    """The cluster does not answer, or not in time."""


class ClusterRightsMissing(ClusterUnreachable):
    """The cluster refuses the credential, or what it may do: both come back without a change of ours."""


class Misconfigured(BackendError):
    """The row's settings cannot be used to reach the cluster; the message says what is right."""

    def __init__(self, message: str, *, about: str = "settings") -> None:
        super().__init__(message)
        self.about = about
        """`settings`, or `secrets`."""


class CannotRun(BackendError):
    """The cluster will never run this as it is: no free port, no such engine, a name it cannot take."""


class RetryLater(BackendError):
    """The cluster can do it later: apply again. The message says what is waited for."""


class FilesPending(RetryLater):
    """The version's files are still being brought to where its workers will run."""

    def __init__(
        self, message: str, fetches: "tuple[FilesFetch, ...]" = (), *, pull_failure: str = ""
    ) -> None:
        super().__init__(message)
        self.fetches = fetches
        self.pull_failure = pull_failure
        """Why a machine cannot pull the image; empty: nothing says so."""


class UnknownWorker(BackendError):
    """There is no such worker, and no log of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The settings and secrets by which a cluster is reached. Each kind has its own."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name, unsealed."""
    installation: str = ""
    """Whose the row is, as `common.audit.installation` names it; empty: nobody's in particular."""


class ObservedState(StrEnum):
    """The same words as clusters.states.WorkerState."""

    STARTING = "starting"
    READY = "ready"
    """It said so itself a moment ago."""
    DRAINING = "draining"
    FAILED = "failed"
    """Its engine failed, or its process keeps ending by itself."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """The files that workers serve. Each backend brings them to its workers in its own way."""

    id: int
    """Of its row in the registry."""
    label: str
    """`model:version`."""
    digest: str = ""
    """Of its manifest, in hex."""
    files: tuple[ModelFile, ...] = ()
    source: str = ""
    """Address of the store that has them, each under its hash: `s3://bucket/prefix` or `file:///...`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFetch:
    """Progress of bringing the files of a version to one place."""

    place: str
    """Name of the machine, or `claim NAME`."""
    come_bytes: int
    size_bytes: int
    bytes_per_second: int | None = None
    """Over the last seconds; None: the place does not say."""
    problem: str = ""
    """Why they have not come yet, or do not come, in words; empty: nothing went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """The desired state: exactly `replicas` workers, all alike."""

    name: str
    """As `NAME`; never used for another deployment."""
    service: str
    version: ModelVersion
    engine: str
    replicas: int
    prefetch_machines: int | None = None
    """While it wants no workers: its image and files come to so many machines that could run them, 0: to all.
    None: they come with the workers."""
    slots: int = 4
    """Requests that one worker works on at the same time."""
    device: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The engine's; JSON."""
    adapters: Mapping[str, ModelVersion] = field(default_factory=dict)
    """LoRA adapters by name: workers load and unload them while they run, and are not replaced for it."""
    image: str = ""
    """What a worker's container is made from, `repository@sha256:...`; plain processes have none."""
    image_acceleration: str = ""
    """For which way of loading it was made: `images.states.Acceleration`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """To find its workers by, with the cluster's own tools."""
    resources: Resources = field(default_factory=Resources)
    placement: Placement = field(default_factory=Placement)
    grace_seconds: float = 30.0
    """How long a worker that is asked to end may go on with the requests that it has."""
    load_within_seconds: int = 3_600
    """A worker that is not ready by then, counted from its start, is started anew."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Besides its own."""
    secret_environment: Mapping[str, SecretKey] = field(default_factory=dict)
    """By variable, where its value lies."""
    server: ModelServer | None = None
    """In place of our worker; None: ours."""
    pod_patch: Mapping[str, Any] = field(default_factory=dict)
    """What a person changed of the template of its pods, and another approved."""
    nodes: int = 1
    """Machines that one worker spans."""
    scale_turn: int | None = None
    """Number of the wish for `replicas`. Who sets them past Slipway afterwards is obeyed until a higher one,
    where the backend tells them apart. None: there are always `replicas`."""
    leaves_scale: bool = False
    """Others decide how many workers there are, as a HorizontalPodAutoscaler: `replicas` is what they begin
    with at this turn."""
    leaving: tuple[str, ...] | None = None
    """Names of workers whose machine leaves service, and that others stand in for by now: of surplus workers
    they are the first to end. None: no machine under it was ever drained. Of no meaning where there is but
    one machine, and for workers that span several."""
    report_token: str = field(default="", repr=False)
    """With which its workers report where no agent of their machine does it; empty: none is needed."""

    def __post_init__(self) -> None:
        """Raises CannotRun for what no cluster could run."""
        if not NAME.fullmatch(self.name):
            raise CannotRun(
                f"{self.name!r} cannot name a deployment: lower-case letters, digits and hyphens."
            )
        faults = [*faults_of(self.resources), *faults_in(self.placement)]
        if (namespace := self.placement.namespace) and not NAME.fullmatch(namespace):
            faults.append(f"{namespace!r} cannot name a namespace")
        if self.replicas < 0:
            faults.append(f"it cannot have {self.replicas} workers")
        faults += label_faults("labels", self.labels)
        faults += [
            f"{name!r} cannot name a secret"
            for name in self.placement.image_pull_secrets
            if not SECRET_NAME.fullmatch(name)
        ]
        if faults:
            raise CannotRun(f"{self.name}: {'; '.join(faults)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorker:
    """A worker as the cluster has it."""

    id: str
    """Given by the cluster: it tells the worker from all others, and outlives its restarts."""
    name: str
    """To show."""
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
    fetch: FilesFetch | None = None
    """Of the files that it waits for; None: it waits for none, or does not say."""
    pull_failure: str = ""
    """Why its image cannot be pulled; empty: nothing says so."""


@dataclass(frozen=True, slots=True)
class ObservedScale:
    """The number of workers of a deployment in its cluster, and who set it."""

    replicas: int
    by: str
    """Who else said so last, as the cluster names them; empty: nobody that is known."""
    turn: int
    """As `DeploymentSpec.scale_turn`: of the last wish of ours that was carried out; 0: none was."""


class GpuSharingMode(StrEnum):
    """The same words as clusters.states.GpuSharing."""

    NONE = ""
    MIG = "mig"
    MPS = "mps"
    TIME_SLICING = "time-slicing"


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
    sharing: GpuSharingMode = GpuSharingMode.NONE


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a machine, as reported by itself or an agent on it; types and polarity as in
    Kubernetes.
    """

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class CordonMark:
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
    conditions: tuple[NodeCondition, ...] = ()
    cordon: CordonMark | None = None
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """GPUs that pods may have, by the name under which the cluster counts them; empty: all of `gpus`."""
    capacity: Mapping[str, int] = field(default_factory=dict)
    """GPUs, slices and shares that it has, healthy or not, by the same names; empty: not counted."""
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
class ClusterHealth:
    ok: bool
    detail: str


class ClusterBackend(Protocol):
    """Every method answers within seconds, waits for no worker, and raises ClusterUnreachable."""

    abilities: ClassVar[BackendAbilities]

    @property
    def node_operations(self) -> "NodeOperations":
        """Return the operations on its machines."""

    def apply(self, spec: DeploymentSpec, *, fence: Fence) -> None:
        """Make the deployment be `spec`: missing workers start, surplus and outdated ones drain and end.

        Absolute and idempotent. A worker that is outdated is replaced when it has ended: apply again while
        `observe` does not show what was asked for. Raises StaleDeploymentFence, CannotRun, RetryLater.
        """

    def files_reason(self, spec: DeploymentSpec) -> str:
        """Return in words how the files come to the workers, and why; empty: there is only one way."""

    def remove(self, deployment: str, *, fence: Fence) -> None:
        """Drain and end all its workers; they are gone when `observe` shows none. Gone already is no error.

        Raises StaleDeploymentFence.
        """

    def observe(self, deployment: str) -> tuple[ObservedWorker, ...]:
        """The workers that there really are, in a stable order; none for an unknown deployment."""

    def logs(self, worker: str, *, lines: int) -> str:
        """The end of what the worker of this id wrote, also before its restarts. Raises UnknownWorker."""

    def nodes(self) -> tuple[ObservedNode | UnreadNode, ...]:
        """The machines of the cluster. One that cannot be read is an answer, not an error of the cluster."""

    def pods(self) -> "ObservedPods":
        """Return the pods on its machines or waiting for one, those of others included, without ended
        ones.
        """

    def health(self) -> ClusterHealth:
        """Whether the cluster takes orders. Never raises."""

    def checks(self) -> "tuple[ClusterCheck, ...]":
        """Return the checks made before the cluster is trusted with work, in that order, within 20 s. The
        first is whether it can be reached; one that cannot is asked nothing else. Never raises.
        """
