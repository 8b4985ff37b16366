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
    """Percentage of the traffic, 0 to 100."""

    stable = serializers.FloatField(allow_null=True)
    candidate = serializers.FloatField(allow_null=True)


class WeightsSerializer(serializers.Serializer[Any]):
    desired = SharesSerializer()
    observed = SharesSerializer(
        help_text="Observed by the gateway in the current step; null while not measured."
    )
    requests = serializers.IntegerField(help_text="Number of requests behind `observed`.")
    interval_percent = serializers.ListField(
        child=serializers.FloatField(),
        allow_null=True,
        help_text="Expected range of the candidate's share (sampling interval, 99.9 %).",
    )


class TrafficQuerySerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField(required=False, help_text="Start; default: an hour ago. Kept 30 days.")
    until = serializers.DateTimeField(required=False, help_text="End; default: now.")
    step_seconds = serializers.IntegerField(
        required=False,
        min_value=60,
        max_value=21600,
        help_text="Resolution; default: 60 for an hour, 300 for six, 900 for a day, 3600 for a week.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        until = attrs.setdefault("until", timezone.now())
        since = attrs.setdefault("since", until - timedelta(hours=1))
        if since >= until:
            raise serializers.ValidationError({"since": [_("It must lie before `until`.")]})
        return attrs


class VersionTrafficSerializer(serializers.Serializer[Any]):
    """Traffic of one version; requests with an accepted `x-release` are excluded."""

    deployment = serializers.CharField()
    version = serializers.CharField(allow_null=True, help_text="`model:version`")
    requests = serializers.IntegerField()
    errors = serializers.IntegerField(  # type: ignore[assignment]
        help_text="Requests with a 5xx status or cut off."
    )
    abandoned = serializers.IntegerField(
        help_text="Requests cancelled by the client before a response; not in `requests`."
    )
    requests_per_s = serializers.FloatField()
    error_share = serializers.FloatField(allow_null=True, help_text="0..1; null without requests.")
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)
    first_byte_p95_ms = serializers.FloatField(allow_null=True, help_text="TTFT p95, for streaming workers.")


class TrafficPointSerializer(serializers.Serializer[Any]):
    began_at = serializers.DateTimeField()
    at = serializers.DateTimeField(help_text="End of the interval.")
    versions = VersionTrafficSerializer(
        many=True, allow_null=True, help_text="null: unknown; not measured, or the gateway restarted."
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
    requests = serializers.IntegerField(help_text="Healthy requests of stable that it is based on.")
    measured_ms = serializers.FloatField(
        allow_null=True, help_text="Value measured from them; null: too few."
    )
    previous_ms = serializers.FloatField(allow_null=True, help_text="Previous threshold of the service.")
    is_held = serializers.BooleanField(
        help_text="Held: stable is much slower, so it stays until a person sets another."
    )


@example(examples.SLOW_THRESHOLD)
class SlowThresholdSerializer(serializers.ModelSerializer[SlowThreshold]):
    release = serializers.IntegerField(
        source="release_id",
        allow_null=True,
        help_text="Release in which it was learnt; null: set by a person.",
    )

    class Meta:
        model = SlowThreshold
        fields = ("milliseconds", "source", "requests", "release", "by", "reason", "at")


@example(examples.NEW_SLOW_THRESHOLD)
class NewSlowThresholdSerializer(serializers.Serializer[Any]):
    milliseconds = serializers.FloatField(
        min_value=1, max_value=320_000, help_text="Rounded up to a histogram bucket of the gateway."
    )
    reason = serializers.CharField(max_length=MAX_REASON)
