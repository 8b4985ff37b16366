"""Drills: faults that are played on machines of test clusters."""

from typing import Any, ClassVar

from django.http import Http404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from clusters.models import Cluster
from common.api.examples import example
from common.api.rows import StuckField
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from gpu_health import selectors
from gpu_health.api import drill_examples as examples
from gpu_health.api.machines import machine_of
from gpu_health.drills.reports import followed, report
from gpu_health.drills.scenarios import scenarios
from gpu_health.filters import DrillFilter
from gpu_health.models import Drill, DrillCluster
from gpu_health.services.drills import MOST_GPUS, cancel_drill, mark_cluster, order_drill, verdict_of
from gpu_health.states import DrillWay


@example(examples.DRILL)
class GpuDrillSerializer(serializers.ModelSerializer[Drill]):
    node = serializers.CharField(source="node.name")
    cluster = serializers.CharField(source="node.cluster.name")
    title = serializers.CharField()
    stuck = StuckField()
    finding = serializers.SerializerMethodField(help_text="Of the fault that must be found; null: not yet.")
    incident = serializers.SerializerMethodField(help_text="Null: none was opened.")
    report = serializers.SerializerMethodField(
        help_text="What was seen when, in seconds since the fault was there; `detected_seconds` until its "
        "finding, `repaired_seconds` until the machine was back; `verdict`: as the rules said, and as it was."
    )

    class Meta:
        model = Drill
        fields = (
            *("id", "node", "cluster", "scenario", "title", "way", "acts", "gpus", "gpu", "state", "stuck"),
            *("why", "finding", "incident", "report", "ordered_by", "reason", "ordered_at", "played_at"),
            *("ended_at", "cancelled_by"),
        )

    def get_finding(self, drill: Drill) -> int | None:
        found = followed(drill).finding
        return found.pk if found else None

    def get_incident(self, drill: Drill) -> int | None:
        found = followed(drill).incident
        return found.pk if found else None

    def get_report(self, drill: Drill) -> dict[str, Any]:
        return drill.report or report(drill)


@example(examples.NEW_DRILL)
class NewGpuDrillSerializer(serializers.Serializer[Any]):
    scenario = serializers.CharField(max_length=60, help_text="Name of the scenario, as the list tells it.")
    node = serializers.CharField(max_length=253, help_text="Name of the machine.")
    cluster = serializers.CharField(
        max_length=63, required=False, help_text="Needed if several clusters have a machine of this name."
    )
    way = serializers.ChoiceField(
        choices=DrillWay.choices, required=False, help_text="Source that tells of it; default: the first."
    )
    acts = serializers.BooleanField(
        default=False,
        help_text="Quarantine, drain and return the machine; repairs are played. Else a dry run.",
    )
    gpus = serializers.IntegerField(min_value=1, max_value=MOST_GPUS, default=8, help_text="Played GPUs.")
    gpu = serializers.IntegerField(
        min_value=0, max_value=MOST_GPUS - 1, default=0, help_text="Index of the one that falls ill."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


@example({"reason": "seen enough"})
class GpuDrillCancellingSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


@example(examples.SCENARIO)
class GpuScenarioSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    says = serializers.CharField(help_text="Simulated.")
    document = serializers.CharField(help_text="That it follows.")
    fault = serializers.CharField(help_text="That must be found.")
    ways = serializers.ListField(
        child=serializers.CharField(),
        help_text="Sources that can tell of it: agent, condition, provider, check.",
    )
    healed_by = serializers.ListField(child=serializers.CharField(), help_text="Actions that fix it.")
    expected = serializers.DictField(help_text="What the rules in force say of the fault.")


@example({"results": [examples.SCENARIO], "next": None, "previous": None})
class GpuScenariosSerializer(serializers.Serializer[Any]):
    results = GpuScenarioSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


@example(examples.CLUSTER)
class GpuDrillClusterSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField(max_length=63)
    is_test = serializers.BooleanField(help_text="Faults may be played on its machines.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


class GpuDrills(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Drills: a fault is played on a machine of a test cluster, and followed up the ladder."""

    queryset = Drill.objects.select_related("node__cluster__team")
    serializer_class = GpuDrillSerializer
    inputs: ClassVar = {
        "create": NewGpuDrillSerializer,
        "cancel": GpuDrillCancellingSerializer,
        "mark": GpuDrillClusterSerializer,
    }
    filterset_class = DrillFilter
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-ordered_at",)
    needs: ClassVar = dict.fromkeys(("create", "mark", "cancel"), Right.FLEET_OPERATE)

    def create_one(self, given: dict[str, Any]) -> Drill:
        """Requires the right `fleet.operate`. 409 unless the cluster is marked as a test cluster."""
        node = machine_of(self.actor, given.pop("node"), given.pop("cluster", ""))
        return order_drill(actor=self.actor, node=node, name=given.pop("scenario"), **given)

    @extend_schema(responses={200: GpuDrillSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel: the fault is withdrawn, and the machine brought back."""
        reason = self.given()["reason"]
        return self.answer(cancel_drill(actor=self.actor, drill=self.get_object(), reason=reason))

    @extend_schema(responses={200: GpuScenariosSerializer})
    @action(detail=False, methods=["get"])
    def scenarios(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the scenarios, and what the rules in force say of each; all on one page."""
        rules = selectors.rules()
        rows = [
            {**{name: getattr(one, name) for name in ("name", "title", "says", "fault")}}
            | {"document": one.source}
            | {"ways": [str(way) for way in one.ways], "healed_by": [str(each) for each in one.healed_by]}
            | {"expected": verdict_of(one, one.ways[0], rules)}
            for one in scenarios().values()
        ]
        return Response({"results": rows, "next": None, "previous": None})

    @extend_schema(responses={200: GpuDrillClusterSerializer})
    @action(detail=False, methods=["post"])
    def mark(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Mark a cluster as one for tests, or take the mark away. Requires the right `fleet.operate`."""
        given = self.given()
        cluster = Cluster.objects.for_actor(self.actor).filter(name=given["cluster"]).first()
        if cluster is None:
            raise Http404
        mark_cluster(
            actor=self.actor, cluster=cluster, is_test=given["is_test"], reason=given.get("reason", "")
        )
        row = DrillCluster.objects.filter(cluster=cluster).first()
        told = {"cluster": cluster.name, "is_test": row is not None, "reason": row.reason if row else ""}
        return Response(told)
