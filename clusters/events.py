from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterRegistered:
    cluster_id: int


@dataclass(frozen=True, slots=True)
class ClusterMoved:
    """Another host runs it."""

    cluster_id: int


@dataclass(frozen=True, slots=True)
class ClusterChecksFailed:
    """A check fails that did not before: nothing can be released there."""

    cluster_id: int


@dataclass(frozen=True, slots=True)
class ClusterRightsLost:
    """The cluster grants less than it did."""

    cluster_id: int


@dataclass(frozen=True, slots=True)
class ClusterRemoved:
    """Nothing is told to it or asked of it any more."""

    cluster_id: int


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """The set of endpoints that may be sent requests has changed: `selectors.endpoints` tells the new one."""

    deployment_id: int


@dataclass(frozen=True, slots=True)
class DeploymentReady:
    """All wanted workers are ready."""

    deployment_id: int


@dataclass(frozen=True, slots=True)
class DeploymentDegraded:
    """Some of the wanted workers are ready, and have been all."""

    deployment_id: int


@dataclass(frozen=True, slots=True)
class DeploymentFailing:
    deployment_id: int


@dataclass(frozen=True, slots=True)
class DeploymentRemoved:
    deployment_id: int


@dataclass(frozen=True, slots=True)
class NodeCordoned:
    """No new worker is placed on it."""

    node_id: int


@dataclass(frozen=True, slots=True)
class NodeUncordoned:
    node_id: int


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """Its pods are about to leave: the machine is cordoned, nothing was evicted yet."""

    node_id: int
    drain_id: int


@dataclass(frozen=True, slots=True)
class NodeDrained:
    """No pod is left on it that was to go; it stays cordoned."""

    node_id: int
    drain_id: int


@dataclass(frozen=True, slots=True)
class NodeDrainFailed:
    """Its row says why; the machine stays cordoned."""

    node_id: int
    drain_id: int


@dataclass(frozen=True, slots=True)
class NodeDrainCancelled:
    node_id: int
    drain_id: int


@dataclass(frozen=True, slots=True)
class AgentSilent:
    """The agent of a machine has not reported for 15 s. It is no word on the machine's workers."""

    node_id: int


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Its process runs, but it has sent no heartbeat for 5 s, though the agent of its machine has."""

    worker_id: int


@dataclass(frozen=True, slots=True)
class WorkerStuck:
    """A worker has been fully busy for 10 s or more."""

    worker_id: int
