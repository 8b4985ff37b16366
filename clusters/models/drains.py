from typing import ClassVar

from django.db import models
from django.db.models import Q

from accounts.querysets import TeamOrShared
from clusters.draining.options import DrainOptions
from clusters.states import UNDER_WAY, DrainState
from common import clock
from common.reconcile import Reconciled


class DrainRows(TeamOrShared["Drain"]):
    team_path = "node__cluster__team"


class Drain(Reconciled):
    """The pods of a machine are sent to others: what was ordered, and how far it is."""

    node = models.ForeignKey("clusters.Node", on_delete=models.CASCADE, related_name="drains")
    state = models.CharField(max_length=20, choices=DrainState.choices, default=DrainState.CORDONING)
    state_since = models.DateTimeField(default=clock.now)
    by = models.CharField(max_length=200)
    reason = models.TextField()
    options = models.JSONField(default=dict)
    """As `DrainOptions.document` writes them."""
    op_key = models.CharField(max_length=200, blank=True, default="")
    """The operation that ordered it: the same one is answered with it. Empty: a person did."""
    has_cordoned = models.BooleanField(default=False)
    """The cordon is its own: it takes it back when it is cancelled, and nobody else's."""
    pods = models.JSONField(default=list, blank=True)
    """`{uid, namespace, name, owner, deployment, gpus, fate, why, blocked_by, asked_at, ask_again_at,
    refusals, left_at}` each: those that go, and those that stay, as they were seen last."""
    replacements = models.JSONField(default=list, blank=True)
    """Of each deployment with ready workers there: `{deployment, service, leaving, started, ready, why}`, how
    many leave, for how many another one was started elsewhere first, how many of those were ready before the
    first eviction, and why not for all. Empty: it was not looked yet, or there are none."""
    seen_at = models.DateTimeField(null=True)
    """When its pods were seen last; None: not yet."""
    problem = models.TextField(blank=True)
    """Why it failed, or what it waits for."""
    cancelled_by = models.CharField(max_length=200, blank=True)
    cancel_reason = models.TextField(blank=True)
    asked_at = models.DateTimeField(default=clock.now)
    ended_at = models.DateTimeField(null=True)

    objects = DrainRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node"], condition=Q(state__in=[str(one) for one in UNDER_WAY]), name="drain_once"
            ),
            models.UniqueConstraint(fields=["op_key"], condition=~Q(op_key=""), name="drain_of_operation"),
        ]
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return f"drain of {self.node}"

    @property
    def cordon_name(self) -> str:
        """Return the owner's name for its cordon, which no other drain or person has."""
        return f"{self.by}/drain-{self.pk}"

    @property
    def wanted(self) -> DrainOptions:
        return DrainOptions.read(self.options)

    @property
    def is_under_way(self) -> bool:
        return self.state in UNDER_WAY


class Surge(models.Model):
    """A deployment has more workers for now: some of its workers leave with a drain, and others are ready
    elsewhere before they do. It counts while the drain goes on, and is never written anywhere else."""

    drain = models.ForeignKey(Drain, on_delete=models.CASCADE, related_name="surges")
    deployment = models.ForeignKey("clusters.Deployment", on_delete=models.CASCADE, related_name="surges")
    workers = models.PositiveSmallIntegerField()
    """So many more, until as many have left."""
    ready_wanted = models.PositiveIntegerField()
    """Ready workers on machines that stay, from which on the leaving ones are not missed."""
    ready = models.PositiveSmallIntegerField(default=0)
    """So many of them were ready before the first eviction: as many leave by its wish alone."""
    handed_over = models.JSONField(default=list)
    """Names of the workers that the deployment was told to let go of."""

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["drain", "deployment"], name="surge_once")]
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.workers} more of {self.deployment}"

    @property
    def extra(self) -> int:
        """Workers beyond the wish, now."""
        return max(0, self.workers - len(self.handed_over))
