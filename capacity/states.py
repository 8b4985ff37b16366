from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from common.transitions import StateMachine


class PoolMode(TextChoices):
    """Degree to which a pool acts by itself."""

    OFF = "off", _("Off")
    ADVISE = "advise", _("Advise")
    APPROVE = "approve", _("Ask for approval")
    AUTOMATIC = "automatic", _("Automatic")


class PoolKind(TextChoices):
    """The work that a pool is for."""

    SERVING = "serving", _("Serving")
    TRAINING = "training", _("Training")
    SMALL_JOBS = "small_jobs", _("Small jobs")


class Granularity(TextChoices):
    """Unit in which a pool hands out what it has."""

    WORKER = "worker", _("Workers")
    MACHINE = "machine", _("Whole machines")
    CARD = "card", _("Cards")


class WorkloadAdmission(TextChoices):
    """Who decides when a workload of a pool starts, and where."""

    SLIPWAY = "slipway", _("Slipway")
    KUEUE = "kueue", _("Kueue")


class QueueKind(TextChoices):
    """The place where the work of a service's queue waits."""

    JOBS = "jobs", _("Jobs of the service")
    REDIS_LIST = "redis_list", _("Redis list")
    REDIS_STREAM = "redis_stream", _("Redis stream")
    PROMETHEUS = "prometheus", _("Prometheus query")
    SQS = "sqs", _("Amazon SQS")
    KAFKA = "kafka", _("Apache Kafka")


class CapacityPlanKind(TextChoices):
    """The things that a plan moves."""

    WORKERS = "workers", _("Workers of services")
    WORKLOADS = "workloads", _("Preemption")
    MACHINES = "machines", _("Whole machines between services")
    FRAGMENTS = "fragments", _("Defragmentation")


class WorkloadKind(TextChoices):
    TRAINING = "training", _("Training")
    BATCH = "batch", _("Batch")


class WorkloadState(TextChoices):
    QUEUED = "queued", _("Queued")
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    CHECKPOINTING = "checkpointing", _("Writing a checkpoint")
    STOPPING = "stopping", _("Stopping")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")


class CapacityPlanState(TextChoices):
    PROPOSED = "proposed", _("Proposed")
    RELEASING = "releasing", _("Releasing")
    ACQUIRING = "acquiring", _("Acquiring")
    DONE = "done", _("Done")
    FAILED = "failed", _("Failed")
    STOPPED = "stopped", _("Stopped")
    SUPERSEDED = "superseded", _("Superseded")
    REJECTED = "rejected", _("Rejected")
    UNDONE = "undone", _("Undone")


_S = CapacityPlanState
RUNNING = (_S.RELEASING, _S.ACQUIRING)
OPEN = (_S.PROPOSED, *RUNNING)

MOVES: StateMachine[CapacityPlanState] = StateMachine(
    {
        _S.PROPOSED: {_S.RELEASING, _S.SUPERSEDED, _S.REJECTED},
        _S.RELEASING: {_S.ACQUIRING, _S.FAILED, _S.STOPPED},
        _S.ACQUIRING: {_S.DONE, _S.FAILED, _S.STOPPED},
        _S.DONE: {_S.UNDONE},
        _S.FAILED: {_S.UNDONE},
        _S.STOPPED: {_S.UNDONE},
        _S.SUPERSEDED: set(),
        _S.REJECTED: set(),
        _S.UNDONE: set(),
    }
)
"""A plan is undone by another one, once that is done."""


class LayoutState(TextChoices):
    """State of a change of a card's layout."""

    DRAINING = "draining", _("Draining")
    APPLYING = "applying", _("Applying")
    RETURNING = "returning", _("Returning to service")
    APPLIED = "applied", _("Applied")
    FAILED = "failed", _("Failed")


class CardSharing(TextChoices):
    """The way in which a card is divided."""

    MIG = "mig", _("MIG instances")
    MPS = "mps", _("MPS shares")


_L = LayoutState
BY_CLAIMS = "claims"
"""Configuration of a layout that is templates of claims (DRA): the driver divides cards as pods come."""
OPEN_LAYOUTS = (_L.DRAINING, _L.APPLYING, _L.RETURNING)
LAYOUT_MOVES: StateMachine[LayoutState] = StateMachine(
    {
        _L.DRAINING: {_L.APPLYING, _L.FAILED},
        _L.APPLYING: {_L.RETURNING, _L.FAILED},
        _L.RETURNING: {_L.APPLIED, _L.FAILED},
        _L.APPLIED: set(),
        _L.FAILED: set(),
    }
)

_W = WorkloadState
HOLDING = (_W.STARTING, _W.RUNNING, _W.CHECKPOINTING, _W.STOPPING)
"""States in which a workload holds its cards."""
ENDED = (_W.SUCCEEDED, _W.FAILED, _W.CANCELLED)

WORKLOAD_MOVES: StateMachine[WorkloadState] = StateMachine(
    {
        _W.QUEUED: {_W.STARTING, _W.CANCELLED},
        _W.STARTING: {_W.RUNNING, _W.STOPPING, _W.QUEUED, *ENDED},
        _W.RUNNING: {_W.CHECKPOINTING, _W.STOPPING, _W.QUEUED, *ENDED},
        _W.CHECKPOINTING: {_W.RUNNING, _W.STOPPING, _W.QUEUED, *ENDED},
        _W.STOPPING: {_W.QUEUED, *ENDED},
        **{ended: set() for ended in ENDED},
    }
)
"""A workload that gave way is queued again, and goes on from its checkpoint."""
