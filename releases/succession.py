"""What became of promoted releases: derived from those that followed, never stored."""

from typing import Any

from django.db.models import Case, OuterRef, Q, QuerySet, Subquery, When

from releases.models import Release
from releases.states import ReleaseState


def with_succession(rows: QuerySet[Release]) -> QuerySet[Release]:
    """Each with `superseded_by_id` and `undone_by_id`: for lists, which would ask for every row else."""
    promoted = Release.objects.filter(state=ReleaseState.PROMOTED).order_by("pk").values("pk")
    later = promoted.filter(service=OuterRef("service_id"), pk__gt=OuterRef("pk"))
    undoing = promoted.filter(undoes=OuterRef("pk"))
    is_promoted = Q(state=ReleaseState.PROMOTED)
    release_rows: Any = rows
    annotated: QuerySet[Release] = release_rows.annotate(
        superseded_by_id=Case(When(is_promoted, then=Subquery(later[:1]))),
        undone_by_id=Case(When(is_promoted, then=Subquery(undoing[:1]))),
    )
    return annotated
