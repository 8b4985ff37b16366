"""What patches of services' pods look like over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import PodPatch


@example(examples.POD_PATCH)
class PodPatchSerializer(serializers.ModelSerializer[PodPatch]):
    patch = serializers.DictField(help_text="Merged into the pod template; docs/KUBERNETES.md.")

    class Meta:
        model = PodPatch
        fields = (
            "id",
            "state",
            "patch",
            "reason",
            "proposer",
            "proposed_at",
            "decider",
            "decided_at",
            "decision_reason",
        )


@example(examples.NEW_POD_PATCH)
class NewPodPatchSerializer(serializers.Serializer[Any]):
    patch = serializers.DictField(help_text="`metadata` and `spec` of a pod template; {}: no patch any more.")
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.POD_PATCH_DECISION)
class PodPatchDecisionSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON)
