"""Exports: versions that are published elsewhere."""

from typing import Any, ClassVar

import django_filters
from rest_framework import serializers

from accounts.states import Right
from common.api.examples import example
from common.api.rows import ProgressSerializer, ReasonSerializer
from common.api.views import CreateEndpoint
from common.audit import MAX_REASON
from common.errors import Invalid
from hubs.api import export_examples as examples
from hubs.api.sources import patterns_field
from hubs.api.transfers import FIELDS, TransferSerializer, TransferViews, shown_by
from hubs.models import Export
from hubs.services import exports as export_services
from hubs.services.checks import MAX_TOKEN
from hubs.states import EXPORT_STATES, ExportKind
from models_registry.errors import UnknownModel, UnknownVersion
from models_registry.selectors import versions


@example(examples.EXPORT)
class ExportSerializer(TransferSerializer[Export]):
    version = serializers.CharField(source="version.name")
    digest = serializers.CharField(source="version.digest")
    kind = serializers.ChoiceField(choices=ExportKind.choices)
    has_token = serializers.SerializerMethodField(
        help_text="Whether a token is stored; it is never shown, and deleted once the export is done "
        "or cancelled."
    )
    create = serializers.BooleanField(  # type: ignore[assignment]
        source="creates", help_text="Create the repository, branch or model if missing."
    )
    private = serializers.BooleanField(source="is_private", help_text="Visibility of a created repository.")
    allow_patterns = serializers.ListField(child=serializers.CharField())
    ignore_patterns = serializers.ListField(child=serializers.CharField())
    why = serializers.CharField(help_text="Reason for the export.")
    state = serializers.ChoiceField(choices=EXPORT_STATES)
    commit = serializers.CharField(
        help_text="Resulting commit, or version on another Slipway; empty until then."
    )
    progress = ProgressSerializer(source="*")

    class Meta:
        model = Export
        fields = (
            "id",
            "model",
            "version",
            "digest",
            "kind",
            "endpoint",
            "repo_id",
            "branch",
            "has_token",
            "create",
            "private",
            "allow_patterns",
            "ignore_patterns",
            "why",
            *FIELDS,
        )

    def get_has_token(self, export: Export) -> bool:
        return bool(export.sealed_token)


def _token(words: str) -> serializers.CharField:
    return serializers.CharField(
        max_length=MAX_TOKEN, required=False, allow_blank=True, write_only=True, help_text=words
    )


@example(examples.NEW_EXPORT)
class NewExportSerializer(serializers.Serializer[Any]):
    model = serializers.CharField(max_length=95)
    version = serializers.CharField(max_length=95, help_text="A ready version: its name, digest or an alias.")
    kind = serializers.ChoiceField(
        choices=ExportKind.choices, required=False, help_text="Default `huggingface`."
    )
    repo_id = serializers.CharField(
        max_length=200, help_text="`org/name`, or the model on the other Slipway."
    )
    branch = serializers.CharField(
        max_length=200, required=False, allow_blank=True, help_text="Default `main`."
    )
    endpoint = serializers.CharField(
        max_length=200,
        required=False,
        allow_blank=True,
        help_text="One of the configured export destinations; default: the first.",
    )
    token = _token("Token with write access. Stored encrypted, and deleted afterwards.")
    create = serializers.BooleanField(  # type: ignore[assignment]
        required=False, help_text="Create the repository or branch if missing."
    )
    private = serializers.BooleanField(
        required=False, help_text="Visibility of a created repository; default true."
    )
    allow_patterns = patterns_field()
    ignore_patterns = patterns_field()
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Reason for the export.")


@example(examples.EXPORT_RETRY)
class ExportRetrySerializer(ReasonSerializer):
    token = _token("Replaces the stored token.")


class ExportFilter(django_filters.FilterSet):  # type: ignore[misc]
    model = django_filters.CharFilter("version__model__name")
    version = django_filters.CharFilter("version__name")
    state = django_filters.MultipleChoiceFilter(choices=EXPORT_STATES)


@shown_by(ExportSerializer)
class Exports(CreateEndpoint, TransferViews):
    """Versions that are published elsewhere: how far they are, and the commits that hold them."""

    queryset = Export.objects.all()
    serializer_class = ExportSerializer
    transfers = export_services.EXPORTS
    event = "export"
    inputs: ClassVar = {
        **TransferViews.inputs,
        "create": NewExportSerializer,
        "retry": ExportRetrySerializer,
    }
    filterset_class = ExportFilter
    search_fields = ("repo_id", "version__model__name")
    created_status = 202
    needs: ClassVar = dict.fromkeys(("create", "pause", "resume", "cancel", "retry"), Right.MODELS_EXPORT)

    def create_one(self, given: dict[str, Any]) -> Export:
        named = f"{given.pop('model')}:{given.pop('version')}"
        try:
            version = versions.resolve(self.actor, named)
        except UnknownModel as error:
            raise Invalid(fields={"model": [str(error)]}) from None
        except UnknownVersion as error:
            raise Invalid(fields={"version": [str(error)]}) from None
        return export_services.start_export(actor=self.actor, version=version, **given)
