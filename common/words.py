"""What people look for in rows."""

from collections.abc import Sequence
from typing import TypeVar

from django.db.models import Model, Q, QuerySet

MAX_WORDS = 8

Row = TypeVar("Row", bound=Model)


def mentioning(rows: QuerySet[Row], text: str, columns: Sequence[str]) -> QuerySet[Row]:
    """Narrow to rows in which every word of the text, of the first few, occurs in one of the columns."""
    for word in text.split()[:MAX_WORDS]:
        rows = rows.filter(occurs_in(columns, word))
    return rows


def occurs_in(columns: Sequence[str], text: str) -> Q:
    """The text stands in one of the columns, in upper or lower case."""
    found = Q()
    for column in columns:
        found |= Q(**{f"{column}__icontains": text})
    return found
