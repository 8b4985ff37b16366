"""Check Jobs of machines."""

from datetime import timedelta
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.states import Right
from common.api.examples import example
from common.api.rows import StuckField
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from gpu_health.api import examples
from gpu_health.api.machines import machine_of
from gpu_health.filters import CheckFilter
from gpu_health.models import GpuCheck
from gpu_health.services.checks import cancel_check, order_check
from gpu_health.states import CheckLevel


@example(examples.CHECK)
class GpuCheckSerializer(serializers.ModelSerializer[GpuCheck]):
    node = serializers.CharField(source="node.name")
    cluster = serializers.CharField(source="node.cluster.name")
    stuck = StuckField()
    passed = serializers.SerializerMethodField(help_text="Null while nothing was found out.")
    checks = serializers.SerializerMethodField(help_text="Each with name, outcome, words and its figures.")

    class Meta:
        model = GpuCheck
        fields = (
            *("id", "node", "cluster", "level", "state", "stuck", "why", "passed", "checks"),
            *("ordered_by", "reason", "ordered_at", "began_at", "ended_at", "cancelled_by"),
        )

    def get_passed(self, check: GpuCheck) -> bool | None:
        return {"passed": True, "failed": False}.get(check.state)

    def get_checks(self, check: GpuCheck) -> list[dict[str, Any]]:
        return list((check.report or {}).get("checks", []))


@example(examples.NEW_CHECK)
class NewGpuCheckSerializer(serializers.Serializer[Any]):
    node = serializers.CharField(max_length=253, help_text="Name of the machine.")
    cluster = serializers.CharField(
        max_length=63, required=False, help_text="Needed if several clusters have a machine of this name."
    )
    level = serializers.ChoiceField(choices=CheckLevel.choices, default=CheckLevel.SHORT)
    wait_minutes = serializers.IntegerField(
        min_value=0, max_value=10_080, default=60, help_text="For the machine to be idle."
    )
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


@example(examples.CHECK_CANCELLING)
class GpuCheckCancellingSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True, default="")


class GpuChecks(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Checks of machines: Jobs that compute on an idle machine, and compare."""

    queryset = GpuCheck.objects.select_related("node__cluster__team")
    serializer_class = GpuCheckSerializer
    inputs: ClassVar = {"create": NewGpuCheckSerializer, "cancel": GpuCheckCancellingSerializer}
    filterset_class = CheckFilter
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-ordered_at",)
    needs: ClassVar = dict.fromkeys(("create", "cancel"), Right.FLEET_OPERATE)

    def create_one(self, given: dict[str, Any]) -> GpuCheck:
        """It begins once nobody computes on the machine. Requires the right `fleet.operate`."""
        node = machine_of(self.actor, given.pop("node"), given.pop("cluster", ""))
        return order_check(
            actor=self.actor, node=node, waits=timedelta(minutes=given.pop("wait_minutes")), **given
        )

    @extend_schema(responses={200: GpuCheckSerializer})
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel: a Job that runs is stopped, and nothing follows from it."""
        reason = self.given()["reason"]
        return self.answer(cancel_check(actor=self.actor, check=self.get_object(), reason=reason))
