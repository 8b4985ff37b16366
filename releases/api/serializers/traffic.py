"""What a service answered over REST, version by version, and when its answers count as slow."""

from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import SlowThreshold


class SharesSerializer(serializers.Serializer[Any]):
    """Percent of the traffic, 0..100."""

    stable = serializers.FloatField(allow_null=True)
    candidate = serializers.FloatField(allow_null=True)


class WeightsSerializer(serializers.Serializer[Any]):
    desired = SharesSerializer()
    observed = SharesSerializer(
        help_text="What the gateway really routed in the present step; null while nothing was measured."
    )
    requests = serializers.IntegerField(help_text="Requests that `observed` rests on.")
    interval_percent = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Where chance allows the candidate's share to lie (99.9 %).",
    )


class TrafficQuerySerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField(
        required=False, help_text="From when on; else the last hour. Readings are kept for 24 h."
    )
    until = serializers.DateTimeField(required=False, help_text="Until when; else now.")
    step_seconds = serializers.IntegerField(
        required=False,
        min_value=60,
        max_value=3600,
        help_text="About how long a point lasts; else 60 for an hour, 300 for six, 900 for more.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until = attrs.setdefault("until", timezone.now())
        since = attrs.setdefault("since", until - timedelta(hours=1))
        if since >= until:
            raise serializers.ValidationError({"since": [_("It must lie before `until`.")]})
        return attrs


class VersionTrafficSerializer(serializers.Serializer[Any]):
    """What one version answered; requests that forced a side with `x-release` are left out."""

    deployment = serializers.CharField()
    version = serializers.CharField(allow_null=True, help_text="`model:version`")
    requests = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment]
        help_text="Those of `requests` answered 500-599 or cut off midway."
    )
    abandoned = serializers.IntegerField(help_text="Clients that left before any answer; not in `requests`.")
    requests_per_s = serializers.FloatField()
    error_share = serializers.FloatField(allow_null=True, help_text="0..1; null without requests.")
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    first_byte_p95_ms = serializers.FloatField(
        allow_null=True, help_text="Time to first token, where the worker streams."
    )


class TrafficPointSerializer(serializers.Serializer[Any]):
    began_at = serializers.DateTimeField()
    at = serializers.DateTimeField(help_text="When it ended.")
    versions = VersionTrafficSerializer(
        many=True, allow_null=True, help_text="null: not known, nobody counted or the gateway restarted."
    )


@example(examples.TRAFFIC)
class TrafficSerializer(serializers.Serializer[Any]):
    service = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    points = TrafficPointSerializer(many=True)


class ThresholdSerializer(serializers.Serializer[Any]):
    milliseconds = serializers.FloatField()
    source = serializers.ChoiceField(  # type: ignore[assignment]
        choices=["plan", "learnt", "person"],
        help_text="The plan's objective; learnt from stable's healthy traffic; set by a person.",
    )
    requests = serializers.IntegerField(help_text="Healthy answers of stable that were looked at.")
    measured_ms = serializers.FloatField(allow_null=True, help_text="What they show; null: they are too few.")
    previous_ms = serializers.FloatField(allow_null=True, help_text="The service's threshold before.")
    is_held = serializers.BooleanField(
        help_text="Stable is much slower than it; it stays as it was until a person sets another."
    )


@example(examples.SLOW_THRESHOLD)
class SlowThresholdSerializer(serializers.ModelSerializer[SlowThreshold]):
    release = serializers.IntegerField(
        source="release_id", allow_null=True, help_text="In which it was learnt; null: a person has set it."
    )

    class Meta:
        model = SlowThreshold
        fields = ("milliseconds", "source", "requests", "release", "by", "reason", "at")


@example(examples.NEW_SLOW_THRESHOLD)
class NewSlowThresholdSerializer(serializers.Serializer[Any]):
    milliseconds = serializers.FloatField(
        min_value=1, max_value=320_000, help_text="Becomes the gateway's bound at or above it."
    )
    reason = serializers.CharField(max_length=MAX_REASON)
