from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class ClusterKind(TextChoices):
    EMBEDDED = "embedded", _("Embedded")
    KUBERNETES = "kubernetes", _("Kubernetes")


class CheckResult(TextChoices):
    """Result of a check made before a cluster is trusted with work."""

    PASSED = "passed", _("Passed")
    WARNING = "warning", _("Warning")
    """Something does not work without it; the rest does."""
    FAILED = "failed", _("Failed")
    """Nothing can be released to the cluster."""
    LEFT_OUT = "left_out", _("Left out")
    """Its administrator did not grant it, and said so: nobody is to do anything about it."""


class ClusterState(TextChoices):
    """State of a cluster, derived from its row."""

    CHECKING = "checking", _("Checking")
    """It has not been looked at since it was added or changed."""
    READY = "ready", _("Ready")
    WARNING = "warning", _("Ready, with warnings")
    """Something does not work there; its checks say what."""
    NOT_READY = "not_ready", _("Not ready")
    """A check failed: nothing can be released to it."""
    UNAVAILABLE = "unavailable", _("Unavailable")
    """It does not answer, or takes no orders."""
    REMOVING = "removing", _("Removing")


class MachineGroup(TextChoices):
    """The present use of a machine."""

    ONLINE = "online", _("Online")
    """Serves requests."""
    OFFLINE = "offline", _("Offline")
    """Works off batches."""


class NodeState(TextChoices):
    READY = "ready", _("Ready")
    NOT_READY = "not_ready", _("Not ready")
    """It says so itself, or its cluster has not heard of it for a while."""
    UNKNOWN = "unknown", _("Unknown")
    """It could not be read; what is known of it is of `state_since`."""
    GONE = "gone", _("Gone")
    """The cluster has no such machine any more."""


class NodeOperation(TextChoices):
    """An operation on a machine."""

    NONE = "", _("none")
    CORDON = "cordon", _("Cordon")
    UNCORDON = "uncordon", _("Uncordon")


class DrainState(TextChoices):
    """State of a drain."""

    CORDONING = "cordoning", _("Cordoning")
    """So that nothing new comes."""
    REPLACING = "replacing", _("Starting replacements")
    """Workers of ours there get others beside them on other machines first."""
    TURNING_AWAY = "turning_away", _("Turning requests away")
    """The gateways stop sending to our workers there."""
    EVICTING = "evicting", _("Evicting")
    """One after the other, as their budgets allow."""
    DRAINED = "drained", _("Drained")
    """Nothing is left that was to go; the machine stays cordoned."""
    FAILED = "failed", _("Failed")
    """`problem` says why; the machine stays cordoned."""
    CANCELLING = "cancelling", _("Cancelling")
    """A cordon of its own is taken back."""
    CANCELLED = "cancelled", _("Cancelled")


class GpuState(TextChoices):
    PRESENT = "present", _("Present")
    UNKNOWN = "unknown", _("Unknown")
    """Its machine, or the driver's tool on it, does not answer."""
    GONE = "gone", _("Gone")
    """Its machine was read, and no machine of the cluster has it."""


class GpuSharing(TextChoices):
    """The way in which several workers share a GPU."""

    NONE = "", _("none")
    MIG = "mig", _("MIG")
    MPS = "mps", _("MPS")
    TIME_SLICING = "time-slicing", _("Time-slicing")


class DeploymentState(TextChoices):
    STARTING = "starting", _("Starting")
    """Not all of the wanted workers have been ready since the last change."""
    READY = "ready", _("Ready")
    DEGRADED = "degraded", _("Degraded")
    """All were ready once; some are not now, and are being restarted."""
    FAILING = "failing", _("Failing")
    """A worker cannot run: it keeps crashing, or was given up. `reason` says why."""
    REMOVING = "removing", _("Removing")
    REMOVED = "removed", _("Removed")


class WorkerState(TextChoices):
    STARTING = "starting", _("Starting")
    READY = "ready", _("Ready")
    """Answers requests."""
    DRAINING = "draining", _("Draining")
    FAILED = "failed", _("Failed")
    """Keeps crashing, or was given up."""


class Alert(TextChoices):
    """An alert raised by a worker's heartbeats."""

    NONE = "", _("none")
    LOST = "lost", _("Lost")
    """Silent although its process runs, or its process ended and the next one does not answer yet."""
    STUCK = "stuck", _("Stuck")
    """All of its slots are busy, and none of its requests has ended for a minute."""
    SATURATED = "saturated", _("Saturated")
    """All of its slots have been busy for 10 s and more, and its requests end: new ones wait."""


S = DeploymentState
MOVES = StateMachine(
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

D = DrainState
DRAIN_MOVES = StateMachine(
    {
        D.CORDONING: {D.REPLACING, D.FAILED, D.CANCELLING},
        D.REPLACING: {D.TURNING_AWAY, D.FAILED, D.CANCELLING},
        D.TURNING_AWAY: {D.EVICTING, D.FAILED, D.CANCELLING},
        D.EVICTING: {D.DRAINED, D.FAILED, D.CANCELLING},
        D.CANCELLING: {D.CANCELLED, D.FAILED},
        D.DRAINED: set(),
        D.FAILED: set(),
        D.CANCELLED: set(),
    }
)
DRAINS = (D.CORDONING, D.REPLACING, D.TURNING_AWAY, D.EVICTING)
"""Pods leave, or are about to."""
UNDER_WAY = (*DRAINS, D.CANCELLING)
del D
