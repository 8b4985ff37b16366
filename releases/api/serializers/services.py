"""What services look like over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases import selectors
from releases.api import examples
from releases.api.serializers.policies import PolicySerializer
from releases.api.serializers.traffic import WeightsSerializer
from releases.models import Service
from releases.states import ReleaseHeader
from serving.protocol import DEVICES, ENGINES


@example(examples.SERVICE)
class ServiceSerializer(serializers.ModelSerializer[Service]):
    team = serializers.CharField(source="team.name")
    model = serializers.CharField(source="model.name")
    cluster = serializers.CharField(source="cluster.name")
    image = serializers.CharField(
        source="image.name",
        default=None,
        allow_null=True,
        help_text="Its releases run this runtime image; null: each the one that fits best.",
    )
    plan = serializers.CharField(source="plan_name")
    policy = PolicySerializer(
        allow_null=True, help_text="What its releases must go through besides what team and plan demand."
    )
    state = serializers.ChoiceField(choices=selectors.SERVICE_STATES, source="summary.state")
    reason = serializers.CharField(
        source="summary.reason", help_text="Why it is degraded, failing or down; empty when nothing is wrong."
    )
    stable = serializers.CharField(source="summary.stable", allow_null=True, help_text="`model:version`")
    candidate = serializers.CharField(source="summary.candidate", allow_null=True)
    release_in_motion = serializers.IntegerField(source="summary.release_id", allow_null=True)
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices,
        read_only=True,
        help_text="From whom `x-release: canary` or `stable` is taken while a release runs.",
    )
    weights = WeightsSerializer(source="summary.weights")
    url = serializers.CharField(source="summary.url", help_text="Where its clients reach it.")

    class Meta:
        model = Service
        fields = (
            "name",
            "team",
            "description",
            "model",
            "alias",
            "cluster",
            "engine",
            "replicas",
            "slots",
            "device",
            "resources",
            "settings",
            "image",
            "plan",
            "policy",
            "policy_replaces_team",
            "state",
            "reason",
            "stable",
            "stable_since",
            "candidate",
            "release_in_motion",
            "release_header",
            "weights",
            "url",
            "created_by",
            "created_at",
        )


@example(examples.RELEASE_HEADER)
class ReleaseHeaderSerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices, help_text="`secret` makes a new key; the previous one stops working."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required for `open` where releases need an approval or a judge step, which takes the right "
        "`releases.bypass`.",
    )


@example(examples.RELEASE_KEY)
class ReleaseKeySerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(choices=ReleaseHeader.choices)
    release_key = serializers.CharField(
        allow_null=True, help_text="To be sent as `x-release-key`. It is shown this once; null without one."
    )


class _ServiceFields(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    alias = serializers.CharField(
        max_length=95, required=False, allow_blank=True, help_text="Alias that a promotion moves."
    )
    engine = serializers.ChoiceField(choices=ENGINES, required=False)
    replicas = serializers.IntegerField(min_value=1, max_value=100, required=False)
    slots = serializers.IntegerField(
        min_value=1, max_value=1024, required=False, help_text="Requests that one worker answers at once."
    )
    device = serializers.ChoiceField(choices=DEVICES, required=False)
    resources = serializers.DictField(
        required=False, help_text="Of one worker: gpus_per_worker, a whole number (default 1)."
    )
    settings = serializers.DictField(required=False, help_text="Settings of the engine.")
    image = serializers.CharField(
        max_length=95,
        required=False,
        allow_null=True,
        help_text="The runtime image that its releases run; null: each picks the one that fits best.",
    )
    plan = serializers.CharField(max_length=63, required=False, help_text="Plan of its releases.")


@example(examples.NEW_SERVICE)
class NewServiceSerializer(_ServiceFields):
    name = serializers.CharField(max_length=50)
    team = serializers.CharField(max_length=63, required=False, help_text="Else the model's.")
    model = serializers.CharField(max_length=95)
    version = serializers.CharField(
        max_length=95, help_text="The first version: its name, a digest's beginning, or an alias."
    )
    cluster = serializers.CharField(max_length=63, default="local")


@example(examples.SERVICE_CHANGE)
class ServiceChangeSerializer(_ServiceFields):
    policy = PolicySerializer(required=False, allow_null=True)
    policy_replaces_team = serializers.BooleanField(
        required=False, help_text="Its policy stands in for the team's; setting it takes `releases.bypass`."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed when its releases would have to go through less than before.",
    )
