"""Queues whose work the workers of a service do: rows."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext as _

from accounts.querysets import TeamOwned
from capacity.models.pools import PoolMember
from capacity.states import QueueKind
from common.reconcile import Reconciled

LONGEST_ITEM_SECONDS = 86_400.0


class QueueRows(TeamOwned["ServiceQueue"]):
    team_path = "member__pool__team"


class ServiceQueue(Reconciled):
    """The queue that a service's workers work off: it has as many workers as the work needs, and none while
    nothing waits and nothing is guaranteed."""

    member = models.OneToOneField(PoolMember, on_delete=models.CASCADE, related_name="queue")
    kind = models.CharField(max_length=20, choices=QueueKind.choices, default=QueueKind.JOBS)
    url = models.CharField(max_length=500, blank=True)
    """Address of a queue outside of Slipway, without credentials."""
    subject = models.CharField(max_length=1_000, blank=True)
    """Key of a list or stream, query of a Prometheus, region of SQS, topic of Kafka."""
    consumer_group = models.CharField(max_length=200, blank=True)
    """Of a stream or topic."""
    sealed_secret = models.TextField(blank=True, editable=False)
    """See `common.sealed`; empty: none."""
    item_seconds = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0.001), MaxValueValidator(LONGEST_ITEM_SECONDS)]
    )
    """For which one item keeps a worker; None: it is measured."""
    deadline = models.DateTimeField(null=True, blank=True)
    """By which all that waits is to be done; None: soon, within two start-up times."""
    late_since = models.DateTimeField(null=True, editable=False)
    """When it was first seen that the deadline will be missed, with all workers that it may have."""
    wanted_at = models.DateTimeField(null=True, editable=False)
    """When work was last refused because no worker ran: one is wanted."""
    memory = models.JSONField(default=dict, editable=False)
    """`capacity.planning.backlog.QueueMemory`."""
    look = models.JSONField(null=True, editable=False)
    """Figures of the last look: `capacity.queue_looks.QueueLook`; None: there was none yet."""

    objects = QueueRows.as_manager()

    class Meta(Reconciled.Meta):
        pass

    def __str__(self) -> str:
        return _("Queue of %(service)s") % {"service": self.member.service}

    @property
    def has_secret(self) -> bool:
        return bool(self.sealed_secret)

    @property
    def figures(self) -> dict[str, Any]:
        return self.look or {}
