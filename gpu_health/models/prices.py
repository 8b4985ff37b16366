from typing import Any, ClassVar

from django.db import models

from common.revisions import Revised
from gpu_health.statistics.cases import Price
from gpu_health.statistics.prices import prices_of


class GpuPrices(Revised):
    """Prices of a GPU hour by cluster and model; one row, or none while nobody has set a price."""

    ONLY = 1

    currency = models.CharField(max_length=3, default="USD")
    """ISO 4217, of all of them."""
    prices = models.JSONField(default=list, blank=True)
    """`{cluster, gpu_model, per_hour}` each, see `gpu_health.statistics.prices`."""

    class Meta:
        verbose_name_plural: ClassVar[Any] = "GPU prices"

    def __str__(self) -> str:
        return "GPU prices"

    @property
    def entries(self) -> tuple[Price, ...]:
        return prices_of(self.prices)
