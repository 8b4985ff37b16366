"""What versions reached in evaluations."""

from django.db.models import Max, QuerySet

from model_store.errors import BlobMissing, StoreUnavailable
from models_registry.facts import readme
from models_registry.facts.figures import Figure
from models_registry.models import Evaluation, Version


def evaluations(version: Version) -> QuerySet[Evaluation]:
    """All that was ever recorded, newest first."""
    return Evaluation.objects.filter(version=version).order_by("-pk")


def evaluations_in_force(version: Version) -> QuerySet[Evaluation]:
    """The newest of each dataset and name, those taken back among them."""
    newest = evaluations(version).order_by().values("dataset", "name").annotate(newest=Max("pk"))
    return Evaluation.objects.filter(pk__in=newest.values("newest")).order_by("dataset", "name")


def recorded_figures(version: Version) -> list[Figure]:
    return [
        Figure(
            name=row.name,
            dataset=row.dataset,
            value=row.value,
            unit=row.unit,
            is_higher_better=row.is_higher_better,
            by=row.recorded_by,
            at=row.recorded_at,
            link=row.link,
        )
        for row in evaluations_in_force(version)
        if row.value is not None
    ]


def figures(version: Version) -> list[Figure]:
    """Return recorded figures, then those of the model card; a card that cannot be read has none."""
    try:
        card = readme.card_of(version)
    except (BlobMissing, StoreUnavailable):
        card = None
    return [*recorded_figures(version), *(card.figures if card else ())]
