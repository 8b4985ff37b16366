"""Aliases of a model's versions, and what they named before."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema

from accounts.states import Right
from common.api.views import DestroyEndpoint, ListEndpoint, PutEndpoint, RetrieveEndpoint
from common.errors import Invalid, Missing
from models_registry.api import serializers
from models_registry.api.views import MODEL, OfModel
from models_registry.filters import AliasMoveFilter, MoveFilter
from models_registry.models import Alias, AliasMove
from models_registry.selectors import aliases, versions
from models_registry.services import aliases as alias_services


@extend_schema(parameters=[MODEL])
class Aliases(OfModel, ListEndpoint, RetrieveEndpoint, PutEndpoint, DestroyEndpoint):
    """Aliases: names that move between the versions of a model, and remember."""

    queryset = Alias.objects.all()
    serializer_class = serializers.AliasSerializer
    inputs = {"update": serializers.AliasPutSerializer}
    lookup_field = "name"
    lookup_url_kwarg = "alias"
    lookup_value_converter = "str"
    sort = ("name", "-moved_at")
    needs: ClassVar = dict.fromkeys(("update", "destroy"), Right.MODELS_WRITE)

    def visible(self, rows: QuerySet[Alias]) -> QuerySet[Alias]:
        return aliases.aliases(self.model)

    def put_one(self, instance: Alias | None, given: dict[str, Any], expected: int | None) -> Alias:
        try:
            version = versions.version_named(self.model, given.pop("version"))
        except Missing as error:
            raise Invalid(fields={"version": [str(error)]}) from None
        return alias_services.set_alias(
            actor=self.actor,
            model=self.model,
            alias=self.kwargs["alias"],
            version=version,
            expected=expected,
            **given,
        )

    def delete_one(self, instance: Alias, expected: int | None, reason: str) -> None:
        alias_services.delete_alias(actor=self.actor, alias=instance, expected=expected, reason=reason)


@extend_schema(parameters=[MODEL])
class ModelHistory(OfModel, ListEndpoint):
    """Who pointed the model's aliases at what, when and why; newest first."""

    queryset = AliasMove.objects.all()
    serializer_class = serializers.AliasMoveSerializer
    filterset_class = AliasMoveFilter
    sort = ("-at",)

    def visible(self, rows: QuerySet[AliasMove]) -> QuerySet[AliasMove]:
        return aliases.alias_history(self.model, self.kwargs.get("alias"))


@extend_schema(
    parameters=[
        MODEL,
        OpenApiParameter("alias", OpenApiTypes.STR, OpenApiParameter.PATH, description="Name of the alias."),
    ]
)
class AliasHistory(ModelHistory):
    """Who pointed the alias at what, when and why; newest first. It outlives the alias."""

    filterset_class = MoveFilter
