"""Drains of machines: what one would do, what was ordered, how far it is."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from clusters.api import examples
from clusters.draining.options import (
    CHECKPOINT_SECONDS,
    MOST_SECONDS,
    REPLACE_SECONDS,
    USUAL_SECONDS,
    DrainOptions,
    PodPolicy,
)
from clusters.draining.pods import PlannedPod, PodPlan
from clusters.draining.progress import GONE
from clusters.filters import DrainFilter
from clusters.models import Cluster, Drain
from clusters.services.drains import cancel_drain
from clusters.states import DrainState
from common.api.examples import example
from common.api.rows import RequiredReasonSerializer, StuckField
from common.api.views import ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON

FATES = (*((str(one), str(one)) for one in PodPlan), (GONE, GONE))


class NamespacePolicySerializer(serializers.Serializer[Any]):
    policy = serializers.ChoiceField(choices=[(str(one), str(one)) for one in PodPolicy])
    within_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MOST_SECONDS,
        default=USUAL_SECONDS,
        help_text="With `finish`: then they are evicted.",
    )
    checkpoint_url = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=2_000,
        help_text="Webhook asked for a checkpoint of each pod before its eviction, and asked again until it "
        'answers `{"state": "done"}`; empty: none.',
    )


@example({"within_seconds": 1800, "local_data_may_go": True})
class DrainOptionsSerializer(serializers.Serializer[Any]):
    grace_seconds = serializers.IntegerField(
        min_value=1,
        max_value=MOST_SECONDS,
        allow_null=True,
        default=None,
        help_text="Grace period of each pod; null: its own.",
    )
    within_seconds = serializers.IntegerField(
        min_value=1,
        max_value=MOST_SECONDS,
        default=USUAL_SECONDS,
        help_text="Time limit of the whole drain; then it fails, naming what is left.",
    )
    daemons_are_left = serializers.BooleanField(
        default=True, help_text="Leave pods of DaemonSets; false: they stop the drain."
    )
    local_data_may_go = serializers.BooleanField(
        default=False, help_text="Evict pods with emptyDir volumes; false: they stop the drain."
    )
    unowned_may_go = serializers.BooleanField(
        default=False, help_text="Evict pods without a controller; false: they stop the drain."
    )
    past_budgets = serializers.BooleanField(
        default=False, help_text="Delete pods instead of evicting them: disruption budgets do not hold."
    )
    checkpoint_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MOST_SECONDS,
        default=CHECKPOINT_SECONDS,
        help_text="Longest time for pods that asked for it to write a checkpoint before eviction; 0: none.",
    )
    replace_seconds = serializers.IntegerField(
        min_value=0,
        max_value=MOST_SECONDS,
        default=REPLACE_SECONDS,
        help_text="Longest time for replacements of Slipway's own workers to become ready on other machines "
        "before eviction, at most half of `within_seconds`; 0: none are started first.",
    )
    gpu_pods_only = serializers.BooleanField(default=False, help_text="Leave pods without GPUs.")
    namespaces = serializers.DictField(
        child=NamespacePolicySerializer(), required=False, help_text="By namespace; `*`: all others."
    )


@example({"reason": "GPU 0 is to be replaced.", "within_seconds": 1800, "local_data_may_go": True})
class NewDrainSerializer(DrainOptionsSerializer):
    reason = serializers.CharField(max_length=MAX_REASON, help_text="Reason; recorded in the audit log.")


def options_of(given: Mapping[str, Any]) -> DrainOptions:
    return DrainOptions.read({name: value for name, value in given.items() if name != "reason"})


class PreviewedPodSerializer(serializers.Serializer[PlannedPod]):
    namespace = serializers.CharField(source="pod.namespace")
    name = serializers.CharField(source="pod.name")
    owner = serializers.CharField(source="pod.owner", help_text="Its controller; empty: none.")
    deployment = serializers.CharField(source="pod.deployment", help_text="Slipway's; empty: another's pod.")
    gpus = serializers.IntegerField(source="pod.gpu_count")
    fate = serializers.ChoiceField(choices=[(str(one), str(one)) for one in PodPlan])
    why = serializers.CharField()
    blocked_by = serializers.CharField(help_text="Budget that forbids its eviction now; empty: none.")


class AffectedDeploymentSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    service = serializers.CharField()
    version = serializers.CharField()
    leaving = serializers.IntegerField(help_text="Workers that leave the machine.")
    ready_elsewhere = serializers.IntegerField(help_text="Ready workers on other machines.")
    note = serializers.CharField()


class ReplacementSerializer(serializers.Serializer[Any]):
    deployment = serializers.CharField()
    service = serializers.CharField()
    leaving = serializers.IntegerField(help_text="Ready workers that leave the machine.")
    started = serializers.IntegerField(help_text="Of them, those that are replaced elsewhere first.")
    ready = serializers.IntegerField(help_text="Replacements that are ready.")
    why = serializers.CharField(help_text="Why not for all, or why not ready; empty: nothing to say.")


class RemainingSerializer(serializers.Serializer[Any]):
    gpu_type = serializers.CharField(help_text="The machine's; empty: unknown.")
    free = serializers.IntegerField(help_text="GPUs of that type on machines that take new pods.")
    wanted = serializers.IntegerField(help_text="GPUs of the pods that leave.")
    pods = serializers.IntegerField(help_text="Pods with GPUs that leave.")
    placed = serializers.IntegerField(help_text="Of them, those that find a machine now.")
    is_stale = serializers.BooleanField(help_text="Whether pods and machines were seen long ago.")


@example(examples.DRAIN_PREVIEW)
class DrainPreviewSerializer(serializers.Serializer[Any]):
    problem = serializers.CharField(help_text="Why it cannot be done with these options; empty: it can.")
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Pods by fate.")
    pods = PreviewedPodSerializer(many=True)
    deployments = AffectedDeploymentSerializer(many=True)
    remaining = RemainingSerializer(help_text="Free GPUs of other machines.")
    replacements = ReplacementSerializer(many=True, help_text="Workers replaced elsewhere before eviction.")


class DrainedPodSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    name = serializers.CharField()
    owner = serializers.CharField()
    deployment = serializers.CharField()
    gpus = serializers.IntegerField()
    fate = serializers.ChoiceField(choices=FATES)
    why = serializers.CharField()
    blocked_by = serializers.CharField(help_text="Why its eviction was refused last; empty: it was not.")
    checkpoint = serializers.CharField(
        default="", help_text="`asked`, `done`, `late` or `not_asked`; empty: it asks for none."
    )
    checkpoint_asked_at = serializers.DateTimeField(default=None, allow_null=True)
    checkpoint_done_at = serializers.DateTimeField(default=None, allow_null=True)
    checkpoint_words = serializers.CharField(
        source="webhook_words", default="", help_text="What its webhook said last."
    )
    refusals = serializers.IntegerField()
    asked_at = serializers.DateTimeField(allow_null=True)
    left_at = serializers.DateTimeField(allow_null=True)


@example(examples.DRAIN)
class DrainSerializer(serializers.ModelSerializer[Drain]):
    node = serializers.CharField(source="node.name")
    node_id = serializers.IntegerField()
    cluster = serializers.CharField(source="node.cluster.name")
    state = serializers.ChoiceField(choices=DrainState.choices)
    problem = serializers.CharField(help_text="Why it failed, or what holds it up; empty: nothing.")
    stuck = StuckField()
    options = DrainOptionsSerializer()
    has_cordoned = serializers.BooleanField(help_text="The cordon is its own: a cancellation takes it back.")
    pods = DrainedPodSerializer(many=True)
    replacements = ReplacementSerializer(many=True, help_text="Workers replaced elsewhere before eviction.")

    class Meta:
        model = Drain
        fields = (
            "id",
            "node",
            "node_id",
            "cluster",
            "state",
            "state_since",
            "by",
            "reason",
            "options",
            "has_cordoned",
            "problem",
            "stuck",
            "replacements",
            "pods",
            "seen_at",
            "cancelled_by",
            "cancel_reason",
            "asked_at",
            "ended_at",
        )


@extend_schema(parameters=[OpenApiParameter("cluster", OpenApiTypes.STR, OpenApiParameter.PATH)])
class Drains(ListEndpoint, RetrieveEndpoint):
    """Drains of the machines of a cluster, under way and ended."""

    queryset = Drain.objects.select_related("node__cluster__team")
    serializer_class = DrainSerializer
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-asked_at",)
    filterset_class = DrainFilter
    inputs = {"cancel": RequiredReasonSerializer}
    needs: ClassVar = {"cancel": Right.FLEET_OPERATE}

    @cached_property
    def cluster(self) -> Cluster:
        return get_object_or_404(Cluster.objects.for_actor(self.actor), name=self.kwargs["cluster"])

    def visible(self, rows: QuerySet[Drain]) -> QuerySet[Drain]:
        return rows.filter(node__cluster=self.cluster)

    @extend_schema(responses={202: DrainSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel: no further pod is evicted, and a cordon that the drain set is taken back."""
        reason = self.given().get("reason", "")
        return self.answer(cancel_drain(actor=self.actor, drain=self.get_object(), reason=reason), status=202)
