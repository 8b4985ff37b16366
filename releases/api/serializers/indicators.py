"""What indicators of services, and the counts that are pushed of them, look like over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import ServiceIndicator
from releases.services.indicators import UTMOST
from releases.states import IndicatorSource

MOST_AT_ONCE = 500


@example(examples.INDICATOR)
class ServiceIndicatorSerializer(serializers.ModelSerializer[ServiceIndicator]):
    class Meta:
        model = ServiceIndicator
        fields = (
            "name",
            "source",
            "description",
            "all_query",
            "bad_query",
            "url",
            "defined_by",
            "defined_at",
        )


class _IndicatorFields(serializers.Serializer[Any]):
    source = serializers.ChoiceField(IndicatorSource.choices, help_text="Who counts it.")  # type: ignore[assignment]
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    all_query = serializers.CharField(
        max_length=2000,
        required=False,
        allow_blank=True,
        help_text="PromQL of counters of all events; `$version` or `$deployment` are filled in.",
    )
    bad_query = serializers.CharField(
        max_length=2000, required=False, allow_blank=True, help_text="The same of the bad events."
    )
    url = serializers.CharField(
        max_length=300,
        required=False,
        allow_blank=True,
        help_text="Address of the Prometheus; empty: the one that the cluster's gateway counts by.",
    )


@example(examples.NEW_INDICATOR)
class DefineIndicatorSerializer(_IndicatorFields):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


class IndicatorEntrySerializer(_IndicatorFields):
    name = serializers.CharField(max_length=64)


class CountedStretchSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=200, help_text="MODEL:VERSION.")
    at = serializers.DateTimeField(help_text="Begin of the stretch of time.")
    seconds = serializers.IntegerField(default=60, help_text="How long it lasts, 1 to 3600.")
    events = serializers.IntegerField(min_value=0, max_value=UTMOST)
    bad = serializers.IntegerField(min_value=0, max_value=UTMOST, help_text="Those that are bad.")


@example(examples.NEW_COUNTS)
class PushCountsSerializer(serializers.Serializer[Any]):
    counts = serializers.ListField(
        child=CountedStretchSerializer(), allow_empty=False, max_length=MOST_AT_ONCE
    )


@example(examples.PUSHED)
class PushResultSerializer(serializers.Serializer[Any]):
    kept = serializers.IntegerField(help_text="Stretches that are new.")
    known = serializers.IntegerField(help_text="Those that were there already, with these counts.")
    different = CountedStretchSerializer(
        many=True, help_text="Those that were there already with other counts, which stay."
    )
