"""Optional abilities of a connected backend: ask with `isinstance`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Protocol, runtime_checkable

from clusters.backends.base import DeploymentSpec, NodeCondition, ObservedScale
from clusters.backends.checks import ClusterCheck
from clusters.backends.node_operations import NodeCommand
from clusters.backends.pulls import ObservedPull
from common.jobs.runners.base import JobRunner
from kube.base import KubernetesClient


@runtime_checkable
class Watchable(Protocol):
    """A backend whose cluster tells of changes."""

    def watch(
        self,
        stop: Event,
        *,
        deployment_changed: Callable[[str], None],
        machines_changed: Callable[[], None],
    ) -> "WatchedMachines":
        """Call, from threads of its own and until `stop`, with the name of each deployment whose workers
        changed, and when a machine did. Returns at once, and never raises for what the cluster does."""


class WatchedMachines(Protocol):
    """The machines, workers and events that a watch holds of its cluster."""

    def machines(self) -> Mapping[str, bytes]:
        """Return the machines by uid, as `node_observations.packed`; a new mapping each time."""

    @property
    def age_seconds(self) -> float | None:
        """Return the seconds since anything was heard of them; None: never anything."""

    def pods(self) -> tuple[Mapping[str, bytes], float | None]:
        """All of the cluster that have not ended, by uid, as `standing.packed`; and how long nothing was
        heard of them, None: never anything, as where they may not be read."""

    def workers(self) -> tuple[Mapping[str, bytes], float | None]:
        """Return the workers by deployment, as `shared_workers.packed`, and the seconds since anything was
        heard of them; None: never anything.
        """

    def events(self) -> Mapping[str, bytes]:
        """Return the events of machines and of our pods, by `kubernetes_events.about`, as
        `kubernetes_events.packed`.
        """

    def pulls(self) -> list[ObservedPull]:
        """Pulls of images that it told of since the last call."""


@runtime_checkable
class SupportsExternalScale(Protocol):
    """A backend in whose cluster others may set how many workers a deployment has."""

    def scale_of(self, deployment: str) -> ObservedScale | None:
        """Return its scale; None: there is no such deployment. Raises ClusterUnreachable."""


@runtime_checkable
class BringsFiles(Protocol):
    """A backend that brings files and image of a deployment to machines before its workers come."""

    def bring_files(self, spec: DeploymentSpec, machines: Collection[str]) -> bool:
        """Return whether all of these machines have them, or will not get them before workers come.

        Repeatable; whoever stands there goes on. Raises ClusterUnreachable."""


@runtime_checkable
class SupportsOwnership(Protocol):
    """A backend whose place in its cluster could be another installation's, too."""

    def own(self) -> tuple[ClusterCheck, ...]:
        """Say in the cluster that the place is ours. Those that failed, where it is another's: nothing may
        be written there."""


@runtime_checkable
class SupportsRightsReview(Protocol):
    """A backend whose cluster can take away what it granted."""

    def right_checks(self) -> tuple[ClusterCheck, ...]:
        """Return the checks of rights alone, which cost little. Raises ClusterUnreachable."""


@runtime_checkable
class SupportsSecrets(Protocol):
    """A backend whose workers need secrets of ours in their cluster."""

    def hand_out_secrets(self) -> None:
        """Write what is missing there or was renewed, nothing that others made. Raises ClusterUnreachable."""


@runtime_checkable
class SupportsCleanup(Protocol):
    """A backend that has more in its cluster than what its deployments own."""

    def tidy(self, needed: Collection[str]) -> None:
        """Take away files of versions that are none of these (digests) and that nobody has asked for within
        an hour, and what requests left that came after their deployment's removal. Raises
        ClusterUnreachable."""


@dataclass(frozen=True, slots=True)
class ClusterJobPlace:
    """Place in a cluster for jobs of ours, each on a machine that it names."""

    runner: "ClusterJobRunner"
    control_plane: str
    """Address at which they reach the control plane."""


class ClusterJobRunner(JobRunner, Protocol):
    @property
    def input_file(self) -> str:
        """Path of the file in which a job finds its standard input."""

    def owners(self) -> Mapping[str, str]:
        """Return the owner of each job there, live or ended, by the job's name. Raises Unavailable."""


@runtime_checkable
class SupportsClusterJobs(Protocol):
    """A backend that runs jobs in its cluster, beside what serves there."""

    def job_place(self) -> ClusterJobPlace:
        """Return how jobs run there. Those that run are observed and removed whatever the settings lack."""


@runtime_checkable
class SupportsCustomResources(Protocol):
    """A backend in whose cluster people may write what they want of Slipway."""

    @property
    def client(self) -> KubernetesClient: ...

    @property
    def namespace(self) -> str:
        """Return where their resources are read."""


@runtime_checkable
class Closable(Protocol):
    """A backend that keeps connections, and with them what it signs in by."""

    def close(self) -> None:
        """Give them back; it is asked nothing more."""


@runtime_checkable
class SupportsConditions(Protocol):
    """Operations on machines of a cluster whose machines have conditions that others may write: drills do."""

    def set_condition(
        self, node: str, kind: str, condition: NodeCondition | None, order: NodeCommand
    ) -> None:
        """The condition of this type is so from now on; None: there is none.

        Raises as NodeOperations, OperationUnsupported where Slipway may not.
        """
