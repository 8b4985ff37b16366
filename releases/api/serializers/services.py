"""What services look like over REST."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.api.serializers.indicators import IndicatorEntrySerializer
from releases.api.serializers.policies import PolicySerializer
from releases.api.serializers.traffic import WeightsSerializer
from releases.models import Service
from releases.selectors.services import SERVICE_STATES
from releases.services.returning import FormerVersion
from releases.states import ReleaseHeader
from serving.engines.registry import SERVED_ENGINES
from serving.worker_command import DEVICES


class ClusterRuleSerializer(serializers.Serializer[Any]):
    labels = serializers.DictField(
        child=serializers.CharField(max_length=63), required=False, help_text="Labels that it must have."
    )
    region = serializers.CharField(max_length=63, required=False)
    provider = serializers.CharField(max_length=63, required=False)
    gpu = serializers.CharField(
        max_length=100, required=False, help_text="Part of the name of its GPUs: `H100`."
    )
    free_gpus = serializers.IntegerField(
        min_value=0, max_value=100_000, required=False, help_text="So many of them must be free."
    )
    gpu_resource = serializers.CharField(
        max_length=100,
        required=False,
        help_text="Name under which it counts them: `nvidia.com/mig-1g.10gb`; default: what workers ask for.",
    )


class ConsideredSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    fits = serializers.BooleanField()
    says = serializers.CharField(help_text="Why, or why not.")


@example(examples.SERVICE)
class ServiceSerializer(serializers.ModelSerializer[Service]):
    team = serializers.CharField(source="team.name")
    model = serializers.CharField(source="model.name")
    cluster = serializers.CharField(source="cluster.name")
    cluster_rule = ClusterRuleSerializer(
        read_only=True, allow_null=True, help_text="Rule that chose the cluster; null: it was named."
    )
    cluster_choice = ConsideredSerializer(
        many=True, read_only=True, help_text="Clusters considered then, the chosen one first."
    )
    image = serializers.CharField(
        source="image.name",
        default=None,
        allow_null=True,
        help_text="Runtime image; null: the best match at each release.",
    )
    plan = serializers.CharField(source="plan_name")
    policy = PolicySerializer(
        allow_null=True, help_text="Release policy in addition to the team's and the plan's."
    )
    state = serializers.ChoiceField(choices=SERVICE_STATES, source="summary.state")
    reason = serializers.CharField(
        source="summary.reason", help_text="Reason why it is degraded, failing or down; else empty."
    )
    stable = serializers.CharField(source="summary.stable", allow_null=True, help_text="`model:version`")
    candidate = serializers.CharField(source="summary.candidate", allow_null=True)
    release_in_motion = serializers.IntegerField(source="summary.release_id", allow_null=True)
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices,
        read_only=True,
        help_text="Who may choose stable or candidate by `x-release` while a release runs.",
    )
    automation_paused_by = serializers.CharField(
        read_only=True,
        help_text="Who rolled it back, so that no release starts by itself; or empty.",
    )
    indicators = IndicatorEntrySerializer(
        many=True, read_only=True, help_text="Those that others than its workers count."
    )
    weights = WeightsSerializer(source="summary.weights")
    url = serializers.CharField(source="summary.url", help_text="URL for clients.")

    class Meta:
        model = Service
        fields = (
            "name",
            "team",
            "description",
            "model",
            "alias",
            "cluster",
            "cluster_rule",
            "cluster_choice",
            "engine",
            "replicas",
            "slots",
            "device",
            "resources",
            "pod",
            "settings",
            "image",
            "plan",
            "policy",
            "policy_replaces_team",
            "indicators",
            "state",
            "reason",
            "stable",
            "stable_since",
            "automation_paused_by",
            "candidate",
            "release_in_motion",
            "release_header",
            "weights",
            "url",
            "created_by",
            "created_at",
        )


@example(examples.FORMER_VERSION)
class FormerVersionSerializer(serializers.Serializer[Any]):
    """A version that served the service before."""

    version = serializers.CharField(help_text="`model:version`")
    served_until = serializers.DateTimeField()
    release = serializers.IntegerField(source="release.pk", help_text="By which it came up last.")
    plan = serializers.CharField(
        source="plan.name", help_text="`return`, or the service's plan where the policy demands it."
    )
    skips = serializers.SerializerMethodField(help_text="Steps of the service's plan that are left out.")
    seconds = serializers.FloatField(
        allow_null=True, help_text="Duration of its last start; null: not known."
    )
    warm_workers = serializers.IntegerField(help_text="Kept without traffic: the return takes seconds.")
    refusal = serializers.CharField(
        allow_blank=True, help_text="Why nobody can return to it; empty: all may."
    )

    def get_skips(self, former: FormerVersion) -> list[str]:
        return [step.spoken() for step in former.skips]


@example(examples.RETURN)
class ReturnSerializer(serializers.Serializer[Any]):
    version = serializers.CharField(max_length=100, help_text="Name of a version that served before.")
    reason = serializers.CharField(max_length=MAX_REASON)


@example(examples.RELEASE_HEADER)
class ReleaseHeaderSerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(
        choices=ReleaseHeader.choices, help_text="`secret` creates a new key; the previous one stops working."
    )
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required for `open` where releases need an approval or a judge step; that requires "
        "the right `releases.bypass`.",
    )


@example(examples.RELEASE_KEY)
class ReleaseKeySerializer(serializers.Serializer[Any]):
    release_header = serializers.ChoiceField(choices=ReleaseHeader.choices)
    release_key = serializers.CharField(
        allow_null=True, help_text="Value for `x-release-key`; shown only once; null: no key."
    )


class _ServiceFields(serializers.Serializer[Any]):
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    alias = serializers.CharField(
        max_length=95, required=False, allow_blank=True, help_text="Alias to move to each promoted version."
    )
    engine = serializers.ChoiceField(choices=SERVED_ENGINES, required=False)
    replicas = serializers.IntegerField(min_value=1, max_value=100, required=False)
    slots = serializers.IntegerField(
        min_value=1, max_value=1024, required=False, help_text="Concurrent requests per worker."
    )
    device = serializers.ChoiceField(choices=DEVICES, required=False)
    resources = serializers.DictField(
        required=False,
        help_text="Per worker: gpus_per_worker, an integer (default 1); gpu_resource, their name in "
        "Kubernetes (default `nvidia.com/gpu`); cpus, cpu_limit, memory, "
        "memory_limit and shared_memory, as Kubernetes writes them: `500m`, `16Gi`.",
    )
    pod = serializers.DictField(
        required=False,
        help_text="In Kubernetes: namespace, node_selector, tolerations, topology_spread, priority_class, "
        "runtime_class, image_pull_secrets, env, secret_env, load_within_seconds, grace_seconds, "
        "nodes_per_replica, server; see docs/KUBERNETES.md.",
    )
    settings = serializers.DictField(required=False, help_text="Engine settings.")
    image = serializers.CharField(
        max_length=95,
        required=False,
        allow_null=True,
        help_text="Runtime image; null: the best match at each release.",
    )
    plan = serializers.CharField(max_length=63, required=False, help_text="Default release plan.")
    indicators = IndicatorEntrySerializer(
        many=True,
        required=False,
        help_text="All indicators that others than its workers count; those not named are removed. Left out: "
        "they stay.",
    )


@example(examples.NEW_SERVICE)
class NewServiceSerializer(_ServiceFields):
    name = serializers.CharField(max_length=50)
    team = serializers.CharField(max_length=63, required=False, help_text="Default: the model's.")
    model = serializers.CharField(max_length=95)
    version = serializers.CharField(
        max_length=95, help_text="First version: its name, a digest prefix, or an alias."
    )
    cluster = serializers.CharField(
        max_length=63, required=False, help_text="Default: `local`, unless a rule chooses."
    )
    cluster_rule = ClusterRuleSerializer(
        required=False, help_text="Instead of `cluster`: what it must be. It is chosen once, now."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "cluster" in attrs and "cluster_rule" in attrs:
            raise serializers.ValidationError({"cluster_rule": [_("Name a cluster, or give a rule.")]})
        if "cluster_rule" not in attrs:
            attrs.setdefault("cluster", "local")
        return attrs


@example(examples.SERVICE_CHANGE)
class ServiceChangeSerializer(_ServiceFields):
    policy = PolicySerializer(required=False, allow_null=True)
    policy_replaces_team = serializers.BooleanField(
        required=False,
        help_text="The service's policy replaces the team's; setting it requires `releases.bypass`.",
    )
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required when the change lowers the release policy.",
    )
