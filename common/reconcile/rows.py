from datetime import UTC, datetime
from typing import ClassVar

from django.db import models

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KERNEL_COLUMNS = ("next_at", "lease_until", "fence", "turn", "wakes", "attempts")
"""Of the columns of a `Reconciled` row, those that say nothing to a person."""


class Reconciled(models.Model):
    """Columns that the kernel keeps on every long-lived row. Only the kernel writes them."""

    next_at = models.DateTimeField(null=True, blank=True, editable=False)
    """When the next step is due; None while the row is at rest."""
    lease_until = models.DateTimeField(default=EPOCH, editable=False)
    """Until when one worker has the row to itself."""
    fence = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every claim and every interruption; whatever carries a lower one is late."""
    turn = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every step that is over; the op_key of a step's effect is derived from it."""
    wakes = models.PositiveBigIntegerField(default=0, editable=False)
    """Rises with every wish; a wish that arrives during a step is not lost when the step settles."""
    attempts = models.PositiveSmallIntegerField(default=0, editable=False)
    """Failures in a row of the present step."""
    last_error = models.TextField(blank=True, editable=False)
    stuck_at = models.DateTimeField(null=True, blank=True, editable=False)
    """Since when the kernel has given up and waits for a person."""

    class Meta:
        abstract = True
        indexes: ClassVar = [
            models.Index(fields=["next_at"], name="%(class)s_due", condition=models.Q(stuck_at=None))
        ]
