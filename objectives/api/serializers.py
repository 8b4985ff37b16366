from typing import Any

from rest_framework import serializers

from common.api.examples import example
from objectives.budget import ErrorBudget
from objectives.models import ServiceObjective

NEW = {
    "name": "chat-availability",
    "service": "chat",
    "target_percent": 99.9,
    "latency_ms": None,
    "window_days": 30,
    "description": "As promised to customers.",
}
KEPT = {"created_by": "olga", "created_at": "2026-11-20T08:00:00Z"}
BUDGET = {
    "requests": 1_200_000,
    "bad": 480,
    "level_percent": 99.96,
    "remaining": 0.6,
    "burn_5m": 0.0,
    "burn_30m": 0.2,
    "burn_1h": 0.4,
    "burn_6h": 0.5,
}
LATENCY = "Answers that take longer are bad; null: answers 500 to 599, or cut off, are."


class ErrorBudgetSerializer(serializers.Serializer[ErrorBudget]):
    requests = serializers.IntegerField(source="total", help_text="In the window.")
    bad = serializers.IntegerField(help_text="Requests that failed the objective.")
    level_percent = serializers.FloatField(allow_null=True, help_text="Good requests; null: no requests.")
    remaining = serializers.FloatField(help_text="Share of the error budget; below 0: overspent.")
    burn_5m = serializers.SerializerMethodField(help_text="Times as fast as allowed; null: no requests.")
    burn_30m = serializers.SerializerMethodField(help_text="As of 5 minutes.")
    burn_1h = serializers.SerializerMethodField(help_text="As of 5 minutes.")
    burn_6h = serializers.SerializerMethodField(help_text="As of 5 minutes.")

    def get_burn_5m(self, budget: ErrorBudget) -> float | None:
        return budget.burn[5]

    def get_burn_30m(self, budget: ErrorBudget) -> float | None:
        return budget.burn[30]

    def get_burn_1h(self, budget: ErrorBudget) -> float | None:
        return budget.burn[60]

    def get_burn_6h(self, budget: ErrorBudget) -> float | None:
        return budget.burn[360]


@example({"id": 3, "team": "speech", **NEW, **KEPT, "budget": BUDGET})
class ObjectiveSerializer(serializers.ModelSerializer[ServiceObjective]):
    team = serializers.CharField(source="team.name")
    service = serializers.CharField(source="service.name")
    latency_ms = serializers.FloatField(allow_null=True, help_text=LATENCY)
    budget = ErrorBudgetSerializer()

    class Meta:
        model = ServiceObjective
        fields = ("id", "team", *NEW, *KEPT, "budget")


class ObjectiveWishSerializer(serializers.Serializer[Any]):
    target_percent = serializers.FloatField(help_text="Share of good requests, 50 to 99.999.")
    latency_ms = serializers.FloatField(required=False, allow_null=True, help_text=LATENCY)
    window_days = serializers.IntegerField(required=False, min_value=1, max_value=30)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)


@example({"target_percent": 99.5})
class ObjectiveChangeSerializer(ObjectiveWishSerializer):
    """The changes of an objective."""


@example(NEW)
class NewObjectiveSerializer(ObjectiveWishSerializer):
    name = serializers.SlugField(max_length=63)
    service = serializers.CharField(max_length=50)
    team = serializers.CharField(
        max_length=63, required=False, help_text="Owner of the service; others are refused."
    )
