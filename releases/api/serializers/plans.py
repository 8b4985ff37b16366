"""What release plans look like over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import Plan
from releases.selectors import plans as plan_selectors


@example(examples.PLAN)
class PlanSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="null: built in."
    )
    description = serializers.CharField()
    body = serializers.DictField(help_text="Plan body; its JSON schema is at `plans/schema/`.")
    hash = serializers.CharField()
    summary = serializers.SerializerMethodField(help_text="Summary of the steps.")
    changed_by = serializers.CharField(default="", allow_blank=True)
    changed_at = serializers.SerializerMethodField(help_text="null: built in.")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_changed_at(self, plan: Plan) -> Any:
        return plan.changed_at if plan.team_id else None

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_summary(self, plan: Plan) -> Any:
        return plan_selectors.summary(plan)


@example(examples.NEW_PLAN)
class NewPlanSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63, required=False)
    body = serializers.DictField(help_text="`steps`, and `judge` if not the default.")
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required for a plan that a release policy names.",
    )


@example(examples.PLAN_CHANGE)
class PlanChangeSerializer(serializers.Serializer[Any]):
    body = serializers.DictField()
    team = serializers.CharField(max_length=63, required=False)
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required when a service uses the plan and the change lowers what it demands.",
    )
