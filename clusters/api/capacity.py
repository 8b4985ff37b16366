"""A cluster's GPUs by type, and who waits for them."""

from typing import Any

from rest_framework import serializers

from clusters.api import examples
from common.api.examples import example


class GpuCapacitySerializer(serializers.Serializer[Any]):
    gpu_type = serializers.CharField()
    resource = serializers.CharField(help_text="Name under which the cluster counts them.")
    memory_bytes = serializers.IntegerField(help_text="Of one GPU; 0: unknown.")
    sharing = serializers.CharField(help_text="`mig`, `mps`, `time-slicing`; empty: none.")
    machines = serializers.IntegerField()
    total = serializers.IntegerField()
    ours = serializers.IntegerField(help_text="Held by Slipway's pods.")
    others = serializers.IntegerField(help_text="Held by pods of others.")
    free = serializers.IntegerField(help_text="On machines that take new pods.")
    fragmented = serializers.IntegerField(
        help_text="Of the free ones, those that are left when every machine takes as many pods of the usual "
        "size as fit."
    )
    unavailable = serializers.IntegerField(help_text="Unused, on machines that take no new pods.")
    usual = serializers.IntegerField(help_text="Usual size of a pod, in GPUs.")
    largest = serializers.IntegerField(help_text="Most GPUs that a single pod can have now.")


class PendingPodSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    deployment = serializers.CharField(help_text="Slipway's; empty: another's pod.")
    gpus = serializers.IntegerField()
    why = serializers.CharField(help_text="Why it waits; empty: not looked at by the scheduler yet.")


@example(examples.CAPACITY)
class ClusterCapacitySerializer(serializers.Serializer[Any]):
    seen_at = serializers.DateTimeField(allow_null=True, help_text="null: never yet.")
    is_stale = serializers.BooleanField(help_text="The cluster has been silent: nothing is decided by it.")
    problem = serializers.CharField(
        source="occupancy.problem", default="", help_text="What could not be seen; empty: nothing."
    )
    types = GpuCapacitySerializer(many=True)
    pending_count = serializers.IntegerField()
    pending = PendingPodSerializer(
        source="occupancy.pending", many=True, default=(), help_text="At most 200, those with GPUs first."
    )
