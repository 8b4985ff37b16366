from typing import ClassVar, Self

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from accounts.querysets import TeamOrShared
from accounts.states import Right
from clusters.states import (
    CheckResult,
    ClusterKind,
    ClusterState,
)
from common import clock
from common.actor import Actor
from common.hosts import MOST_CHARACTERS
from common.reconcile import Reconciled
from common.revisions import Revised

slug = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?\Z",
    gettext_lazy("Use lower-case letters, digits and hyphens; start and end with a letter or digit."),
)


class ClusterRows(TeamOrShared["Cluster"]):
    team_path = "team"

    def present(self) -> Self:
        """Exclude removed clusters."""
        return self.filter(removed_at=None)

    def for_actor(self, actor: Actor, right: Right = Right.READ) -> Self:
        return super().for_actor(actor, right).present()


class Cluster(Reconciled, Revised):
    """A place that runs workers. It is surveyed again and again: its machines and whether it answers."""

    name = models.CharField(max_length=63, validators=[slug])
    """Of one that is there; it may be given again once this one is removed."""
    kind = models.CharField(max_length=20, choices=ClusterKind.choices)
    team = models.ForeignKey(
        "accounts.Team", on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    """The one that it belongs to; None: shared by all."""
    host = models.CharField(max_length=MOST_CHARACTERS, blank=True)
    """The one whose supervisord and files are its data plane; blank: it is reached over a network, by
    anybody."""
    region = models.CharField(max_length=63, blank=True)
    """Where it stands, in the words of the images' mirrors; blank: nowhere in particular."""
    provider = models.CharField(max_length=63, blank=True)
    """Whose machines they are: `aws`, `on-premises`; blank: not said."""
    labels = models.JSONField(default=dict, blank=True)
    """Of people, to find it by: values by key, as Kubernetes' labels."""
    settings = models.JSONField(default=dict, blank=True)
    """What the backend of this kind needs to reach it; each kind knows its own."""
    sealed_secrets = models.JSONField(default=dict, blank=True, editable=False)
    """By name, as `common.sealed` seals them."""
    problem = models.TextField(blank=True, editable=False)
    """Why it cannot be used at the moment, in words; empty while it can."""
    surveyed_at = models.DateTimeField(null=True, editable=False)
    relay_heard_at = models.DateTimeField(null=True, editable=False)
    """When its relay last reported; None: it has none, or was not heard yet."""
    relay_silent_since = models.DateTimeField(null=True, editable=False)
    counted_at = models.DateTimeField(null=True, editable=False)
    """When its pods were last counted, or could not be; None: not yet."""
    checks = models.JSONField(default=list, blank=True, editable=False)
    """`{name, result, detail}` each, in the order in which they were looked at."""
    checked_at = models.DateTimeField(null=True, editable=False)
    rights_seen_at = models.DateTimeField(null=True, editable=False)
    """When what it grants was last compared with its checks."""
    check_asked_at = models.DateTimeField(null=True, editable=False)
    """When somebody last wanted them anew."""
    removal_asked_at = models.DateTimeField(null=True, editable=False)
    """From then on nothing new goes there."""
    removal_by = models.CharField(max_length=200, blank=True, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)
    """The row stays, without secrets: what once ran there names it."""
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = ClusterRows.as_manager()

    class Meta(Reconciled.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], condition=Q(removed_at=None), name="cluster_once")
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_check_due(self) -> bool:
        """Whether somebody asked for checks since they were last made."""
        asked, made = self.check_asked_at, self.checked_at
        return asked is not None and (made is None or made < asked)

    @property
    def state(self) -> ClusterState:
        if self.removal_asked_at is not None:
            return ClusterState.REMOVING
        if self.problem:
            return ClusterState.UNAVAILABLE
        if self.checked_at is None or self.is_check_due:
            return ClusterState.CHECKING
        results = {one["result"] for one in self.checks}
        if CheckResult.FAILED in results:
            return ClusterState.NOT_READY
        return ClusterState.WARNING if CheckResult.WARNING in results else ClusterState.READY

    @property
    def own_lane(self) -> str:
        """Return the lane of steps that wait for its backend or workers."""
        return f"cluster:{self.name}"
