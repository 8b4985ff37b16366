from django.db.models import TextChoices

from common.transitions import Machine


class ClusterKind(TextChoices):
    EMBEDDED = "embedded"
    KUBERNETES = "kubernetes"


WITHOUT_IMAGES = frozenset({ClusterKind.EMBEDDED})
"""Their workers are processes of the machine itself, which need no image."""


class Group(TextChoices):
    """What a machine is for at the moment."""

    ONLINE = "online"
    """Serves requests."""
    OFFLINE = "offline"
    """Works off batches."""


class NodeState(TextChoices):
    READY = "ready"
    UNREACHABLE = "unreachable"


class DeploymentState(TextChoices):
    STARTING = "starting"
    """Not all of the wanted workers have been ready since the last change."""
    READY = "ready"
    DEGRADED = "degraded"
    """All were ready once; some are not now, and are being restarted."""
    FAILING = "failing"
    """A worker cannot run: it keeps crashing, or was given up. `reason` says why."""
    REMOVING = "removing"
    REMOVED = "removed"


class WorkerState(TextChoices):
    STARTING = "starting"
    READY = "ready"
    """Answers requests."""
    DRAINING = "draining"
    FAILED = "failed"
    """Keeps crashing, or was given up."""


class Alert(TextChoices):
    """What the heartbeats of a worker say against it."""

    NONE = "", "none"
    LOST = "lost"
    """Silent, although its process runs."""
    STUCK = "stuck"
    """All of its slots have been busy for the whole of the last 10 s and more: it takes no new request."""


S = DeploymentState
MOVES = Machine(
    {
        S.STARTING: {S.READY, S.DEGRADED, S.FAILING, S.REMOVING},
        S.READY: {S.STARTING, S.DEGRADED, S.FAILING, S.REMOVING},
        S.DEGRADED: {S.STARTING, S.READY, S.FAILING, S.REMOVING},
        S.FAILING: {S.STARTING, S.READY, S.DEGRADED, S.REMOVING},
        S.REMOVING: {S.REMOVED},
        S.REMOVED: set(),
    }
)
"""STARTING again after the wish has changed; what is being removed only ends up removed."""

GONE = (S.REMOVING, S.REMOVED)
del S
