from typing import Any

from rest_framework import serializers

from common.api.examples import example
from usage.api import examples
from usage.models import Budget
from usage.states import UsageMeasure


@example(examples.USAGE)
class UsageRowSerializer(serializers.Serializer[Any]):
    """Sums of a group; of what it is not grouped by, the fields are missing."""

    day = serializers.DateField(required=False)
    team = serializers.CharField(required=False)
    service = serializers.CharField(required=False)
    version = serializers.CharField(required=False)
    key = serializers.CharField(required=False, help_text="Name of the client's key; empty: without one.")
    requests = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment]  # a field, which is no attribute of the class
        help_text="Answered 500 to 599, or cut off."
    )
    refused = serializers.IntegerField(help_text="Refused by a key's limit, or for want of a key.")
    prompt_tokens = serializers.IntegerField()
    completion_tokens = serializers.IntegerField()
    gpu_hours = serializers.FloatField(help_text="GPUs that workers held; of versions, not of keys.")
    cost = serializers.FloatField(help_text="GPU hours at the prices of their time.")


@example(examples.USAGE_REPORT)
class UsageReportSerializer(serializers.Serializer[Any]):
    since = serializers.DateField()
    until = serializers.DateField()
    currency = serializers.CharField(help_text="Of costs; empty: no prices are set, and all costs are 0.")
    rows = UsageRowSerializer(many=True)


@example(examples.BUDGET)
class BudgetSerializer(serializers.ModelSerializer[Budget]):
    team = serializers.CharField(source="team.name")
    service = serializers.CharField(help_text="Empty: all services of the team.")
    amount = serializers.FloatField(help_text="Of a calendar month, in UTC.")
    used = serializers.FloatField(help_text="In the present month.")

    class Meta:
        model = Budget
        fields = (
            *("id", "name", "team", "description", "service", "measure", "amount", "warn_percent", "state"),
            *("used", "created_at", "created_by"),
        )


@example(examples.NEW_BUDGET)
class NewBudgetSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=63)
    team = serializers.CharField(max_length=63)
    service = serializers.CharField(max_length=128, required=False, allow_blank=True)
    measure = serializers.ChoiceField(choices=UsageMeasure.choices)
    amount = serializers.FloatField(help_text="Of a calendar month, in UTC.")
    warn_percent = serializers.IntegerField(required=False, min_value=1, max_value=100)
    description = serializers.CharField(max_length=500, required=False, allow_blank=True)
