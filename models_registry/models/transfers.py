from typing import ClassVar

from django.db import models

from model_store.staged import Launched


class Transfer(Launched):
    """Files on their way from one place to another, as far as they have come."""

    MOVING: ClassVar[str]
    """The state in which they are."""
    state: "models.CharField[str, str]"

    attempt = models.PositiveIntegerField(default=1, editable=False)
    """Rises when it goes on or begins again; results of earlier attempts are void."""
    bytes_done = models.BigIntegerField(default=0, editable=False)
    bytes_total = models.BigIntegerField(default=0, editable=False)
    files_done = models.PositiveIntegerField(default=0, editable=False)
    files_total = models.PositiveIntegerField(default=0, editable=False)
    bytes_per_second = models.BigIntegerField(default=0, editable=False)

    class Meta:
        abstract = True

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds left at the present rate; None when that cannot be told."""
        if self.state != self.MOVING or not self.bytes_per_second or not self.bytes_total:
            return None
        return max(0, self.bytes_total - self.bytes_done) / self.bytes_per_second
