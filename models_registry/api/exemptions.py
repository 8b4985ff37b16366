"""Exemptions: which versions that carry code may be served, and until when."""

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.states import Right
from common.api.examples import example
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from common.errors import Invalid
from models_registry import exemptions
from models_registry.api import exemption_examples as examples
from models_registry.errors import UnknownModel
from models_registry.models import CodeExemption
from models_registry.selectors import catalogue
from models_registry.services import exemptions as exemption_services


@example(examples.CODE_EXEMPTION)
class CodeExemptionSerializer(serializers.ModelSerializer[CodeExemption]):
    team = serializers.CharField(source="team.name")
    model = serializers.CharField(
        source="model.name", default=None, allow_null=True, help_text="null: every model of the team."
    )
    covers_runnable = serializers.BooleanField(
        help_text="Also covers formats that can execute code when loaded, such as pickle."
    )
    in_force = serializers.BooleanField(source="is_in_force")
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="When it was ended early; null: it was not."
    )

    class Meta:
        model = CodeExemption
        fields = (
            "id",
            "team",
            "model",
            "covers_runnable",
            "reason",
            "given_at",
            "given_by",
            "until",
            "in_force",
            "ended_at",
            "ended_by",
        )


@example(examples.NEW_CODE_EXEMPTION)
class NewCodeExemptionSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=63)
    model = serializers.CharField(
        max_length=95, required=False, allow_null=True, help_text="Default: every model of the team."
    )
    covers_runnable = serializers.BooleanField(
        default=False,
        help_text="Also allow formats that can execute code when loaded, such as pickle.",
    )
    reason = serializers.CharField(max_length=MAX_REASON)
    until = serializers.DateTimeField(help_text="Expiry; at most 180 days from now.")


@example(examples.EXEMPTION_END)
class ExemptionEndSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)


class ExemptionFilter(django_filters.FilterSet):  # type: ignore[misc]
    team = django_filters.CharFilter("team__name")
    model = django_filters.CharFilter("model__name")
    in_force = django_filters.BooleanFilter(method="now", label="Only active ones, or only ended ones.")

    def now(self, rows: QuerySet[CodeExemption], name: str, wanted: bool) -> QuerySet[CodeExemption]:
        holding = CodeExemption.objects.in_force(timezone.now()).values("pk")
        return rows.filter(pk__in=holding) if wanted else rows.exclude(pk__in=holding)


class CodeExemptions(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Exemptions of a team, by which its versions that carry code may be served for a while."""

    queryset = CodeExemption.objects.all()
    serializer_class = CodeExemptionSerializer
    inputs: ClassVar = {"create": NewCodeExemptionSerializer, "end": ExemptionEndSerializer}
    filterset_class = ExemptionFilter
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-given_at", "until")
    needs: ClassVar = dict.fromkeys(("create", "end"), Right.CODE_EXEMPT)

    def visible(self, rows: QuerySet[CodeExemption]) -> QuerySet[CodeExemption]:
        return exemptions.exemptions(self.actor)

    def create_one(self, given: dict[str, Any]) -> CodeExemption:
        team = accounts.team_named(self.actor, given.pop("team"))
        name = given.pop("model", None)
        try:
            model = catalogue.model_named(self.actor, name) if name else None
        except UnknownModel as error:
            raise Invalid(fields={"model": [str(error)]}) from None
        return exemption_services.exempt_code(actor=self.actor, team=team, model=model, **given)

    @extend_schema(responses={200: CodeExemptionSerializer})
    @action(detail=True, methods=["post"])
    def end(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End the exemption early. Running workers are not affected; new releases are refused."""
        row = exemption_services.end_exemption(actor=self.actor, exemption=self.get_object(), **self.given())
        return self.answer(row)
