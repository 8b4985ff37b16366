"""What statistics look like over REST. Times in seconds, GPU time in hours, money as decimal text."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from gpu_health.api import statistics_examples as examples
from gpu_health.models import GpuPrices


class GpuTimesSerializer(serializers.Serializer[Any]):
    """Seconds; null: of none."""

    count = serializers.IntegerField()
    mean = serializers.FloatField(allow_null=True)
    median = serializers.FloatField(allow_null=True)
    p90 = serializers.FloatField(allow_null=True)


class GpuFiguresSerializer(serializers.Serializer[Any]):
    incidents = serializers.IntegerField(help_text="First seen in the time that is asked about.")
    machines = serializers.IntegerField()
    open = serializers.IntegerField(help_text="Not ended yet.")
    actions = serializers.IntegerField()
    time_to_detect = GpuTimesSerializer(
        source="detect", help_text="From the fault's first line to its incident: MTTD is the mean."
    )
    time_to_quarantine = GpuTimesSerializer(source="quarantine", help_text="To the cordon of the machine.")
    time_to_repair = GpuTimesSerializer(
        source="repair", help_text="To the return to service, of those that returned in the time: MTTR."
    )
    lost_gpu_hours = serializers.FloatField(help_text="Of all GPUs of a machine, from cordon to return.")
    cost = serializers.DecimalField(
        source="cost.amount", max_digits=20, decimal_places=2, help_text="Of what has a price."
    )
    unpriced_gpu_hours = serializers.FloatField(help_text="Lost, and of GPUs without a price.")


class GpuFaultFiguresSerializer(GpuFiguresSerializer):
    fault = serializers.CharField()
    title = serializers.CharField()


class GpuModelFiguresSerializer(GpuFiguresSerializer):
    gpu_model = serializers.CharField(help_text="Empty: not known.")
    gpus = serializers.IntegerField(help_text="At the end of the time.")
    gpu_hours = serializers.FloatField(help_text="That there were, in service or not.")
    availability = serializers.FloatField(allow_null=True, help_text="Share of the GPU hours, 0 to 1.")


class GpuMachineFiguresSerializer(GpuFiguresSerializer):
    node_id = serializers.IntegerField()
    node = serializers.CharField()
    cluster = serializers.CharField()
    is_lemon = serializers.BooleanField(help_text="The lemon guard stops healing it without an approval.")


class GpuMomentSerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    availability = serializers.DictField(
        child=serializers.FloatField(allow_null=True), help_text="By GPU model, 0 to 1."
    )
    lost_gpu_hours = serializers.DictField(child=serializers.FloatField(), help_text="By fault.")


@extend_schema_serializer(many=False)
@example(examples.STATISTICS)
class GpuStatisticsSerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    currency = serializers.CharField()
    availability = serializers.FloatField(allow_null=True, help_text="Of all GPUs, 0 to 1.")
    total = GpuFiguresSerializer()
    faults = GpuFaultFiguresSerializer(many=True, help_text="The most frequent first.")
    gpu_models = GpuModelFiguresSerializer(many=True)
    machines = GpuMachineFiguresSerializer(many=True, help_text="The 100 with the most incidents.")
    over_time = GpuMomentSerializer(many=True)


class GpuPriceSerializer(serializers.Serializer[Any]):
    gpu_model = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        default="",
        help_text="Part of its name; empty: every model.",
    )
    cluster = serializers.CharField(
        max_length=100, required=False, allow_blank=True, default="", help_text="Empty: every cluster."
    )
    per_hour = serializers.DecimalField(max_digits=12, decimal_places=6, min_value=0)


@extend_schema_serializer(many=False)
@example(examples.PRICES)
class GpuPricesSerializer(serializers.ModelSerializer[GpuPrices]):
    prices = GpuPriceSerializer(many=True)

    class Meta:
        model = GpuPrices
        fields = ("currency", "prices", "revision")


@example(examples.PRICES_CHANGE)
class GpuPricesChangeSerializer(serializers.Serializer[Any]):
    """All prices, in the place of those before."""

    currency = serializers.CharField(max_length=3, min_length=3)
    prices = GpuPriceSerializer(many=True)
    revision = serializers.IntegerField(
        required=False, min_value=0, help_text="That was read: refused if there is another one by now."
    )
    reason = serializers.CharField(max_length=MAX_REASON)
