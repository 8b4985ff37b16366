"""Numbers by which people know rows, such as release 12: without gaps, and never given twice."""

from django.db import models
from django.db.models import F, Max, Value
from django.db.models.functions import Greatest

from common.models import PublicNumber


def next_number(model: type[models.Model]) -> int:
    """Return the next primary key of `model`, inside the transaction that inserts the row.

    A sequence of PostgreSQL loses up to 32 numbers in a crash, and one with each insertion that fails.
    """
    highest = model._base_manager.aggregate(highest=Max("pk"))["highest"] or 0
    numbers = PublicNumber.objects.filter(kind=model._meta.label_lower)
    PublicNumber.objects.get_or_create(kind=model._meta.label_lower)
    numbers.update(last=Greatest(F("last"), Value(highest)) + 1)
    return numbers.values_list("last", flat=True).get()
