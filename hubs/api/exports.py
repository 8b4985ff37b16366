"""Exports: versions that are published elsewhere."""

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.shared import events_of
from common.api.examples import example
from common.api.rows import EVENTS, ProgressSerializer, ReasonSerializer, StuckField
from common.api.streams import ServerEvent
from common.api.views import Created, Listed, Read
from common.audit import MAX_REASON
from common.errors import Invalid
from hubs.api import export_examples as examples
from hubs.api.sources import patterns_field
from hubs.models import Export
from hubs.selectors import exports
from hubs.services import exports as export_services
from hubs.services.checks import MAX_TOKEN
from hubs.states import ExportKind, ExportState
from models_registry.errors import UnknownModel, UnknownVersion
from models_registry.selectors import versions


@example(examples.EXPORT)
class ExportSerializer(serializers.ModelSerializer[Export]):
    model = serializers.CharField(source="version.model.name")
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
    state = serializers.ChoiceField(choices=ExportState.choices)
    reason = serializers.CharField(help_text="Reason for its state.")
    stuck = StuckField()
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
            "state",
            "reason",
            "stuck",
            "commit",
            "progress",
            "author_name",
            "created_at",
            "began_at",
            "ended_at",
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
    state = django_filters.MultipleChoiceFilter(choices=ExportState.choices)


class Exports(Listed, Created, Read):
    """Versions that are published elsewhere: how far they are, and the commits that hold them."""

    queryset = Export.objects.all()
    serializer_class = ExportSerializer
    inputs: ClassVar = {
        "create": NewExportSerializer,
        "retry": ExportRetrySerializer,
        **dict.fromkeys(("pause", "resume", "cancel"), ReasonSerializer),
    }
    filterset_class = ExportFilter
    search_fields = ("repo_id", "version__model__name")
    lookup_field = "id"
    lookup_value_converter = "int"
    created_status = 202
    sort = ("-created_at",)

    def visible(self, rows: QuerySet[Export]) -> QuerySet[Export]:
        return exports.exports(self.actor)

    def create_one(self, given: dict[str, Any]) -> Export:
        named = f"{given.pop('model')}:{given.pop('version')}"
        try:
            version = versions.resolve(self.actor, named)
        except UnknownModel as error:
            raise Invalid(fields={"model": [str(error)]}) from None
        except UnknownVersion as error:
            raise Invalid(fields={"version": [str(error)]}) from None
        return export_services.start_export(actor=self.actor, version=version, **given)

    @extend_schema(responses={202: ExportSerializer})
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Pause; it can be resumed."""
        return self._wish(export_services.pause_export)

    @extend_schema(responses={202: ExportSerializer})
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Resume a paused or interrupted export."""
        return self._wish(export_services.resume_export)

    @extend_schema(responses={202: ExportSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel. A commit already sent may still arrive."""
        return self._wish(export_services.cancel_export)

    @extend_schema(responses={202: ExportSerializer})
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Retry a failed export, with another token if one is given."""
        return self._wish(export_services.retry_export)

    @extend_schema(responses=EVENTS)
    @action(detail=True)
    def events(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Follow an export: a server-sent event at every change until it ends."""
        return events_of(self.get_object(), self, read=_export_events)

    def _wish(self, service: Any) -> Response:
        return self.answer(service(actor=self.actor, export=self.get_object(), **self.given()), status=202)


def _export_events(export_id: int, after: str) -> list[ServerEvent]:
    """One event, the export as it is now, when it is not what the client saw last."""
    export = Export.objects.select_related("version__model").get(pk=export_id)
    place = ".".join(
        str(part)
        for part in (
            export.state,
            export.attempt,
            export.bytes_done,
            export.files_done,
            bool(export.stuck_at),
        )
    )
    if place == after:
        return []
    return [ServerEvent(place, "export", ExportSerializer(export).data, last=not export.is_open)]
