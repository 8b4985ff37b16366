"""What LoRA adapters of services look like over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples


@example(examples.ADAPTER)
class ServiceAdapterSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(source="row.name", help_text="What requests give as their `model`.")
    version = serializers.CharField(source="row.version_label")
    loaded_by = serializers.CharField(source="row.loaded_by")
    loaded_at = serializers.DateTimeField(source="row.loaded_at")
    workers = serializers.IntegerField(source="standing.workers", help_text="Ready workers of the service.")
    loaded = serializers.IntegerField(source="standing.loaded", help_text="Those that have loaded it.")
    problem = serializers.CharField(source="standing.problem", help_text="Why a worker refused it.")


@example(examples.NEW_ADAPTER)
class LoadAdapterSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=200, help_text="MODEL:VERSION with the adapter's files.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)
