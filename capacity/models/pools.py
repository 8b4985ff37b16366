from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q, Value
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from accounts.team_rows import TeamRow
from capacity.states import (
    CapacityPlanKind,
    CapacityPlanState,
    Granularity,
    PoolKind,
    PoolMode,
    WorkloadAdmission,
)
from clusters.models import MAX_REPLICAS, Cluster, slug
from common import clock
from common.reconcile import Reconciled
from common.revisions import Revised

LONGEST_SECONDS = 366 * 24 * 3_600
"""Of any time that is set: a year."""


class PoolRows(TeamOwned["Pool"]):
    """Pools by team."""


class Pool(TeamRow, Reconciled, Revised):
    """Workers of a cluster that services share, or machines whose cards workloads hold; these lend cards."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(
        max_length=20, choices=PoolKind.choices, default=PoolKind.SERVING, db_default=PoolKind.SERVING
    )
    granularity = models.CharField(
        max_length=20, choices=Granularity.choices, default=Granularity.WORKER, db_default=Granularity.WORKER
    )
    selector = models.JSONField(default=dict, blank=True, db_default=Value({}, models.JSONField()))
    """Labels of the machines that it owns; empty: none but those of its inventory."""
    inventory = models.JSONField(default=list, blank=True, db_default=Value([], models.JSONField()))
    """`{machine, cards, model, rack}` of machines that are declared and not seen: they are simulated, and
    their workloads are processes of the cluster's one machine."""
    guarantee = models.PositiveIntegerField(null=True, blank=True)
    """Cards that it gets back whenever it needs them; None: all that its machines have."""
    lending_limit = models.PositiveIntegerField(null=True, blank=True)
    """Cards of its machines that other pools may hold at most; None: all."""
    borrowing_limit = models.PositiveIntegerField(null=True, blank=True)
    """Cards of other pools' machines that it may hold at most; None: all."""
    priority = models.IntegerField(default=0, db_default=0)
    """Of two workloads of one priority, that of the pool with the higher one comes first."""
    admission = models.CharField(
        max_length=20,
        choices=WorkloadAdmission.choices,
        default=WorkloadAdmission.SLIPWAY,
        db_default=WorkloadAdmission.SLIPWAY,
    )
    """Who starts its workloads; of no meaning in a pool of workers."""
    quota = models.JSONField(null=True, editable=False)
    """Its quota in Kueue at the last look: `capacity.quotas.stored_quota`; None: it has none."""
    workers = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(MAX_REPLICAS)]
    )
    """How many workers of its services may run at once; of no meaning in a pool of machines."""
    state = models.CharField(max_length=20, choices=PoolMode.choices, default=PoolMode.ADVISE)
    """Its mode."""
    budget = models.PositiveSmallIntegerField(default=10, validators=[MinValueValidator(1)])
    """Workers that one plan may move."""
    dwell_seconds = models.PositiveIntegerField(default=300, validators=[MaxValueValidator(LONGEST_SECONDS)])
    """For which a service keeps what it got before it gives any of it away."""
    parallel_starts = models.PositiveSmallIntegerField(default=4, validators=[MinValueValidator(1)])
    """Workers that may start at the same time for one service."""
    defragment_every_hours = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(LONGEST_SECONDS // 3_600)]
    )
    """After so many hours moves are planned that free whole machines; None: no schedule."""
    defragment_after_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(LONGEST_SECONDS)]
    )
    """Once a workload waits so long for scattered cards, moves are planned for it; None: they are not."""
    defragmented_at = models.DateTimeField(null=True, editable=False)
    """When such a plan was last made by schedule or for a workload."""
    observed_at = models.DateTimeField(null=True, editable=False)
    problem = models.TextField(blank=True, editable=False)
    """Why nothing was planned at the last look, in words."""

    objects = PoolRows.as_manager()

    class Meta(TeamRow.Meta, Reconciled.Meta):
        indexes = Reconciled.Meta.indexes


class PoolMember(models.Model):
    """A service's share in a pool, and what the last look found."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="memberships")
    service = models.CharField(max_length=63, unique=True, validators=[slug])
    guarantee = models.PositiveSmallIntegerField(default=1)
    """Workers that it always has."""
    limit = models.PositiveSmallIntegerField(
        default=MAX_REPLICAS, validators=[MaxValueValidator(MAX_REPLICAS)]
    )
    """Workers that it has at most."""
    weight = models.FloatField(default=1.0, validators=[MinValueValidator(0.01)])
    """Of its headroom against that of others."""
    switch_seconds = models.FloatField(null=True, editable=False)
    """Seconds from the order of a worker to its first answer, over the last plans; None: not measured."""
    moved_at = models.DateTimeField(null=True, editable=False)
    """When a plan last gave it workers."""
    memory = models.JSONField(default=dict, editable=False)
    """What the law of scaling remembers: `capacity.looks.Remembered`."""
    look = models.JSONField(null=True, editable=False)
    """Figures of the last look: `capacity.looks.ServiceLook`; None: there was none yet."""

    class Meta:
        ordering: ClassVar = ["service"]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(guarantee__lte=F("limit")), name="guarantee_within_limit")
        ]

    def __str__(self) -> str:
        return self.service

    @property
    def most_workers(self) -> int:
        """Workers that it could have by its limit; whole machines hold as many as their cards allow."""
        if self.pool.granularity == Granularity.MACHINE:
            return MAX_REPLICAS
        return min(self.limit, self.pool.workers)


class PlanRows(TeamOwned["CapacityPlan"]):
    team_path = "pool__team"


class CapacityPlan(Reconciled):
    """Workers that move between the services of a pool: what was seen, what follows, and what came of it."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="plans")
    kind = models.CharField(
        max_length=20,
        choices=CapacityPlanKind.choices,
        default=CapacityPlanKind.WORKERS,
        db_default=CapacityPlanKind.WORKERS,
    )
    state = models.CharField(
        max_length=20, choices=CapacityPlanState.choices, default=CapacityPlanState.PROPOSED, editable=False
    )
    state_since = models.DateTimeField(default=clock.now, editable=False)
    reason = models.TextField(blank=True, editable=False)
    """Why it is in this state."""
    changes = models.JSONField(default=list)
    """Of workers: `{service, deployment, before, after, why}` of each service that gets or gives some. Of
    workloads: `{workload, name, before, after, why, lost}`, where before and after are `{machine, cards}` or
    null, and lost is work in card-seconds."""
    looks = models.JSONField(default=list)
    """All that was seen and why each service has what it has: `capacity.looks.ServiceLook`."""
    gain = models.JSONField(default=dict, blank=True, db_default=Value({}, models.JSONField()))
    """Of a defragmentation: jobs that could start by size `before` and `after` it, its `cost` in
    card-seconds, the machines that it frees, and how many of those asked for stay occupied. Of workers:
    `short_before` and `short_after`, by how many workers services have less than they need."""
    inputs = models.JSONField(default=dict, editable=False, db_default=Value({}, models.JSONField()))
    """Limits and guards that it was made under, beside what was seen: `capacity.decisions.inputs_of`."""
    cost = models.FloatField(null=True, editable=False)
    """Worker-seconds of starts, or card-seconds of work lost; None: not reckoned."""
    digest = models.CharField(max_length=64, default="", db_default="", editable=False)
    """SHA-256 of all that it was made of and of what follows: the same input, the same plan."""
    undoes = models.OneToOneField("self", on_delete=models.CASCADE, null=True, related_name="undone_by")
    decided_by = models.CharField(max_length=200, blank=True, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)

    objects = PlanRows.as_manager()

    class Meta(Reconciled.Meta):
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pool"],
                condition=Q(state__in=["proposed", "releasing", "acquiring"]),
                name="one_open_plan_of_pool",
            )
        ]

    def __str__(self) -> str:
        return _("Plan %(number)s of %(pool)s") % {"number": self.pk, "pool": self.pool}


class CapacityStop(models.Model):
    """The kill switch, one row: while it is on, no plan begins or goes on, and traffic stays as it is."""

    is_on = models.BooleanField(default=False)
    changed_by = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    changed_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return "kill switch of capacity"

    @classmethod
    def now(cls) -> "CapacityStop":
        return cls.objects.filter(pk=1).first() or cls(pk=1)
