"""Retention rules over REST."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.examples import example
from common.api.rows import ReasonSerializer, StuckField
from common.api.views import DestroyEndpoint, PutEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from models_registry.api import examples
from models_registry.api.views import MODEL, OfModel
from models_registry.errors import UnknownRule
from models_registry.models import RetentionRule
from models_registry.selectors import retention
from models_registry.services import retention as retention_services


class LastRunSerializer(serializers.Serializer[RetentionRule]):
    at = serializers.DateTimeField(source="last_run_at")
    deleted_versions = serializers.IntegerField(source="last_deleted_versions")
    deleted_bytes = serializers.IntegerField(
        source="last_deleted_bytes", help_text="Total size of these versions, without deduplication."
    )


@example(examples.RETENTION)
class RetentionSerializer(serializers.Serializer[RetentionRule]):
    model = serializers.CharField(source="model.name")
    keep_last = serializers.IntegerField(help_text="Keep the newest N ready versions.")
    keep_days = serializers.IntegerField(help_text="Also keep versions newer than this many days.")
    daily = serializers.BooleanField(source="is_daily", help_text="Applied daily.")
    due_at = serializers.DateTimeField(allow_null=True)
    applying = serializers.SerializerMethodField(help_text="Being applied.")
    stuck = StuckField()
    changed_at = serializers.DateTimeField()
    changed_by = serializers.CharField(source="changed_by_name")
    last_run = serializers.SerializerMethodField(help_text="null: never applied.")

    def get_applying(self, rule: RetentionRule) -> bool:
        return rule.asked is not None

    @extend_schema_field(LastRunSerializer(allow_null=True))
    def get_last_run(self, rule: RetentionRule) -> Any:
        return LastRunSerializer(rule).data if rule.last_run_at else None


@example(examples.RETENTION_PUT)
class RetentionPutSerializer(serializers.Serializer[Any]):
    keep_last = serializers.IntegerField()
    keep_days = serializers.IntegerField(required=False)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


class RetentionVerdictSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(source="version.name")
    bytes = serializers.IntegerField(source="version.size_bytes")
    ready_at = serializers.DateTimeField(source="version.ready_at")
    goes = serializers.BooleanField()
    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="Reasons why it would be deleted or kept."
    )


@example(examples.RETENTION_PREVIEW)
class RetentionPreviewSerializer(serializers.Serializer[Any]):
    preview = serializers.CharField(source="fingerprint", help_text="Pass it to `apply`.")
    going_bytes = serializers.IntegerField(
        help_text="Total size of the versions to be deleted, without deduplication."
    )
    freed_bytes = serializers.IntegerField(help_text="Bytes that no other version references.")
    versions = RetentionVerdictSerializer(source="verdicts", many=True, help_text="Newest first.")


@example(examples.RETENTION_APPLY)
class RetentionApplySerializer(serializers.Serializer[Any]):
    preview = serializers.CharField(max_length=64)
    daily = serializers.BooleanField(required=False)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@extend_schema(parameters=[MODEL])
class Retention(OfModel, RetrieveEndpoint, PutEndpoint, DestroyEndpoint):
    """The retention rule of a model. A rule deletes nothing before its preview was seen."""

    queryset = RetentionRule.objects.all()
    serializer_class = RetentionSerializer
    inputs = {
        "update": RetentionPutSerializer,
        "apply": RetentionApplySerializer,
        "stop": ReasonSerializer,
    }
    outputs = {"preview": RetentionPreviewSerializer}
    pagination_class = None
    needs: ClassVar = dict.fromkeys(("update", "destroy", "apply", "stop"), Right.MODELS_WRITE)

    def visible(self, rows: QuerySet[RetentionRule]) -> QuerySet[RetentionRule]:
        return rows.filter(model=self.model).select_related("model__team")

    def get_object(self) -> RetentionRule:
        try:
            return retention.retention_rule(self.model)
        except UnknownRule:
            if self.action == "update":  # which makes it
                raise Http404 from None
            raise

    def put_one(
        self, instance: RetentionRule | None, given: dict[str, Any], expected: int | None
    ) -> RetentionRule:
        return retention_services.set_retention(
            actor=self.actor, model=self.model, expected=expected, **given
        )

    def delete_one(self, instance: RetentionRule, expected: int | None, reason: str) -> None:
        retention_services.delete_retention(actor=self.actor, rule=instance, expected=expected, reason=reason)

    def preview(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Preview: which versions would be deleted or kept, and why."""
        return Response(
            self.get_serializer(retention.retention_preview(self.get_object(), timezone.now())).data
        )

    @extend_schema(responses={202: RetentionSerializer})
    def apply(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Apply the rule: delete the versions of the preview; refused if the preview is out of date."""
        rule = retention_services.apply_retention(actor=self.actor, rule=self.get_object(), **self.given())
        return self.answer(rule, status=202)

    @extend_schema(responses={200: RetentionSerializer})
    def stop(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stop applying the rule; the rule is kept."""
        return self.answer(
            retention_services.stop_retention(actor=self.actor, rule=self.get_object(), **self.given())
        )


ONE = Retention.as_view({"get": "retrieve", "put": "update", "delete": "destroy"})
PREVIEW = Retention.as_view({"get": "preview"})
APPLY = Retention.as_view({"post": "apply"})
STOP = Retention.as_view({"post": "stop"})
