from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.db import models

from common.hosts import MOST_CHARACTERS
from common.logs.context import PACKED_LENGTH, origin_now

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KERNEL_COLUMNS = (
    "next_at",
    "lane",
    "lane_host",
    "lease_until",
    "fence",
    "turn",
    "wakes",
    "attempts",
    "failed_since",
    "origin",
)
"""Of the columns of a `Reconciled` row, those that say nothing to a person."""
LANE_LENGTH = 300


class Reconciled(models.Model):
    """Columns that the kernel keeps on every long-lived row. Only the kernel writes them."""

    next_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the next step is due; None while the row is at rest."""
    lane = models.CharField(max_length=LANE_LENGTH, blank=True, default="", editable=False)
    """The outside system that its steps wait for (`hub:huggingface.co`, `cluster:prague`); empty: only ours.
    As `Reconciler.lane_of` last said; a claim sets it right."""
    lane_host = models.CharField(max_length=MOST_CHARACTERS, blank=True, default="", editable=False)
    """The host whose processes alone take it, as its steps need files of that one; empty: anybody's.
    As `Reconciler.host_of` last said; a claim sets it right."""
    lease_until = models.DateTimeField(default=EPOCH, editable=False)
    """Until when one worker has the row to itself."""
    fence = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every claim and every interruption; whatever carries a lower one is late."""
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every step that is over; the op_key of a step's effect is derived from it."""
    wakes = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every wish; a wish that arrives during a step is not lost when the step settles."""
    attempts = models.PositiveIntegerField(default=0, editable=False)
    """How often the present step was begun and did not settle. Counted when it begins, so that one that ends
    its process counts, too; what a system that does not answer has made fail is taken off again."""
    failed_since = models.DateTimeField(null=True, blank=True, editable=False, db_index=True)
    """When the first of the failures in a row was; None while the last look was a good one."""
    last_error = models.TextField(blank=True, editable=False)
    stuck_at = models.DateTimeField(null=True, blank=True, editable=False)
    """Since when the kernel has given up and waits for a person."""

    origin = models.CharField(max_length=PACKED_LENGTH, blank=True, default=origin_now, editable=False)
    """The request that made or last woke it, as `common.logs.context` packs it; empty: none did."""

    class Meta:
        abstract = True
        indexes: ClassVar = [
            # Named as the kind: two apps may have rows of one name, and Django allows 30 characters.
            models.Index(
                fields=["next_at"], name="%(app_label)s.%(class)s", condition=models.Q(stuck_at=None)
            )
        ]


class Singleton(Reconciled):
    """The only row of its table, and planted with it."""

    class Meta(Reconciled.Meta):
        abstract = True

    @classmethod
    def seed(cls, now: datetime) -> Mapping[str, Any]:
        """Its columns when it is planted."""
        return {"next_at": now}
