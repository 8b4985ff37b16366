from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from capacity.models.pools import LONGEST_SECONDS, Pool
from capacity.reasons import in_words
from capacity.states import HOLDING, WorkloadKind, WorkloadState
from clusters.models import Cluster
from common import clock
from common.reconcile import Reconciled

MOST_CARDS = 64
MOST_WORKLOAD_MACHINES = 64


class WorkloadRows(TeamOwned["Workload"]):
    """Workloads by team."""


class Workload(TeamRow, Reconciled):
    """A training or batch job that wants cards of a pool: queued, run, preempted and resumed."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="workloads")
    kind = models.CharField(max_length=20, choices=WorkloadKind.choices, default=WorkloadKind.TRAINING)
    command = models.JSONField()
    """Program and arguments."""
    image = models.CharField(max_length=300, blank=True)
    """Of its container, by digest; blank: that of the cluster's jobs. A process has none."""
    claim = models.CharField(max_length=63, blank=True)
    """Volume claim for its checkpoints; blank: it has another place. A process has a directory."""
    cards = models.PositiveSmallIntegerField(validators=[MinValueValidator(1), MaxValueValidator(MOST_CARDS)])
    """Of one machine; of each, where there are several."""
    machines = models.PositiveSmallIntegerField(
        default=1, db_default=1, validators=[MinValueValidator(1), MaxValueValidator(MOST_WORKLOAD_MACHINES)]
    )
    """On which it runs at once, one part of it on each: it starts on all of them, or not at all."""
    priority = models.IntegerField(default=0)
    is_preemptible = models.BooleanField(default=True)
    writes_checkpoints = models.BooleanField(default=True)
    """It answers the request to write one."""
    may_lose_work = models.BooleanField(default=False)
    """It may be stopped without a checkpoint."""
    checkpoint_seconds = models.PositiveIntegerField(default=600)
    """For which it is waited when it was asked for a checkpoint."""
    restart_seconds = models.PositiveIntegerField(default=60)
    """That a restart costs it: to load its checkpoint and go on."""
    expected_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(LONGEST_SECONDS)]
    )
    """For which it will run in all; None: nobody knows, and it fills no reserved machine."""
    state = models.CharField(
        max_length=20, choices=WorkloadState.choices, default=WorkloadState.QUEUED, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    problem = models.TextField(blank=True, editable=False)
    """Why it failed, waits, or was put back: a code of `capacity.reasons`, or words."""
    runs = models.PositiveIntegerField(default=0, editable=False)
    """How often it was started."""
    started_at = models.DateTimeField(null=True, editable=False)
    """Start of the present run."""
    worked_seconds = models.FloatField(default=0.0, editable=False)
    """Of the runs before this one, as far as checkpoints kept them."""
    checkpoint_at = models.DateTimeField(null=True, editable=False)
    asked_at = models.DateTimeField(null=True, editable=False)
    """When it was asked to give way; None: it was not."""
    refused_at = models.DateTimeField(null=True, editable=False)
    """When it last wrote no checkpoint in time and was therefore left at work."""
    resumed_at = models.DateTimeField(null=True, editable=False)
    """When it last went on after it gave way, and was seen to go on some time later."""
    held_by = models.CharField(max_length=200, blank=True, editable=False)
    """Who keeps it in the queue; blank: nobody."""
    cancelled_by = models.CharField(max_length=200, blank=True, editable=False)
    lost_seconds = models.FloatField(default=0.0, editable=False)
    """Work that preemption has cost it, in card-seconds."""
    ended_at = models.DateTimeField(null=True, editable=False)
    log_tail = models.TextField(blank=True, editable=False)
    """End of what the latest run wrote, once it has ended; `capacity.logs` reads it before that."""

    objects = WorkloadRows.as_manager()

    class Meta(TeamRow.Meta, Reconciled.Meta):
        indexes = Reconciled.Meta.indexes

    @property
    def why(self) -> str:
        if self.held_by and self.state == WorkloadState.QUEUED:
            return _("%(name)s suspended it: it waits until somebody resumes it.") % {"name": self.held_by}
        return in_words(self.problem)

    @property
    def holds_cards(self) -> bool:
        return self.state in HOLDING


class Allocation(models.Model):
    """A card and its holder, a workload or a service: starting and draining ones count. The row is the right
    to it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    machine = models.CharField(max_length=253)
    card = models.PositiveSmallIntegerField()
    """Number of the card on its machine, from 0."""
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, null=True, related_name="allocations")
    """Its holder; None: a service."""
    service = models.CharField(max_length=63, blank=True, default="", db_default="")
    """Its holder; empty: a workload."""
    worker = models.CharField(max_length=200, blank=True, default="", db_default="")
    """Id of the service's worker that has it; empty: the service has the whole machine."""
    lender = models.ForeignKey(Pool, on_delete=models.PROTECT, null=True, related_name="+")
    """Pool that owns the machine, where it is not the workload's own."""
    since = models.DateTimeField(default=clock.now)
    lease_until = models.DateTimeField(null=True)
    """When the holder is expected to end; None: nobody knows."""

    class Meta:
        ordering: ClassVar = ["machine", "card"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "machine", "card"], name="one_holder_of_card")
        ]

    def __str__(self) -> str:
        return f"{self.machine} card {self.card}"

    @property
    def holder(self) -> str:
        return self.service or str(self.workload)


class CardSample(models.Model):
    """Free cards of a rack of a pool at one moment, and how many jobs of each size could have started."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="card_samples")
    rack = models.CharField(max_length=253, blank=True)
    at = models.DateTimeField(default=clock.now)
    free = models.PositiveIntegerField()
    startable = models.JSONField()
    """By the job's cards."""

    class Meta:
        ordering: ClassVar = ["at", "rack"]
        indexes: ClassVar = [models.Index(fields=["pool", "at"], name="card_samples_of_pool")]

    def __str__(self) -> str:
        return f"{self.pool} {self.rack} {self.at}"
