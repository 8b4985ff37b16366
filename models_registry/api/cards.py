"""The model card of a version, as its author wrote it."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers

from common.api.examples import example
from common.api.views import RetrieveEndpoint
from models_registry.api import examples
from models_registry.api.views import MODEL, VERSION, OfModel
from models_registry.facts.readme import MAX_BYTES, CardSource, written_of
from models_registry.models import Version
from models_registry.selectors import versions


@example(examples.CARD)
class CardSerializer(serializers.Serializer[CardSource]):
    text = serializers.CharField(help_text="README.md in full; untrusted content.")
    is_cut = serializers.BooleanField(help_text=f"Only its first {MAX_BYTES // 1024} KiB are here.")
    facts = serializers.SerializerMethodField(help_text="Front matter.")

    def get_facts(self, card: CardSource) -> dict[str, str]:
        return dict(card.facts)


@extend_schema(parameters=[MODEL, VERSION])
class Cards(OfModel, RetrieveEndpoint):
    """The model card that the author of a version wrote, in Markdown."""

    queryset = Version.objects.all()
    serializer_class = CardSerializer
    pagination_class = None

    def visible(self, rows: QuerySet[Version]) -> QuerySet[Version]:
        return versions.versions(self.model)

    def get_object(self) -> Any:
        return written_of(versions.version_named(self.model, self.kwargs["version"]))


ONE = Cards.as_view({"get": "retrieve"})
