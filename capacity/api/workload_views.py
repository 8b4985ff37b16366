from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from capacity import selectors
from capacity.api import workload_serializers as serializers
from capacity.filters import WorkloadFilter
from capacity.logs import workload_log
from capacity.models import Allocation, Workload
from capacity.services import workloads as workload_services
from clusters.api.log_lines import LINES, lines_of
from common.api.rows import ReasonSerializer
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint

SHOWN = extend_schema(responses={200: serializers.WorkloadSerializer})
DEEDS = ("suspend", "resume", "cancel")


class Workloads(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Training and batch jobs that hold or want cards of pools."""

    queryset = Workload.objects.select_related("team", "pool").prefetch_related("allocations__lender")
    serializer_class = serializers.WorkloadSerializer
    filterset_class = WorkloadFilter
    lookup_url_kwarg = "workload"
    lookup_value_converter = "int"
    sort = ("-created_at", "name")
    inputs: ClassVar = {"create": serializers.NewWorkloadSerializer, **dict.fromkeys(DEEDS, ReasonSerializer)}
    parameters: ClassVar = {"log": ("lines",)}
    needs: ClassVar = dict.fromkeys(("create", *DEEDS), Right.CAPACITY_WRITE)

    def create_one(self, given: dict[str, Any]) -> Workload:
        team = team_named(self.actor, given.pop("team"))
        pool = selectors.pool_named(self.actor, given.pop("pool"))
        return workload_services.submit_workload(actor=self.actor, team=team, pool=pool, **given)

    @extend_schema(parameters=[LINES], responses={200: serializers.WorkloadLogSerializer})
    @action(detail=True, methods=["get"])
    def log(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The end of what its latest run has written, read where it runs."""
        row = self.get_object()
        log = workload_log(row, lines=lines_of(request))
        told = {"workload": row.pk, "state": row.state, "run": row.runs, "is_live": row.holds_cards}
        return Response(serializers.WorkloadLogSerializer({**told, "log": log}).data)

    @SHOWN
    @action(detail=True, methods=["post"])
    def suspend(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Have it write a checkpoint and give its cards back; it stays in the queue until it is resumed."""
        return self._done(workload_services.hold_workload)

    @SHOWN
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Let a suspended one start again, from its checkpoint."""
        return self._done(workload_services.release_workload)

    @SHOWN
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """End it for good, without a checkpoint."""
        return self._done(workload_services.cancel_workload)

    def _done(self, deed: Any) -> Response:
        return self.answer(deed(self.get_object(), actor=self.actor, reason=self.given().get("reason", "")))


class Allocations(ListEndpoint):
    """The ledger: cards that workloads hold, one holder each."""

    queryset = Allocation.objects.select_related("cluster", "lender", "workload__pool")
    serializer_class = serializers.AllocationSerializer
    sort = ("machine",)

    def visible(self, rows: QuerySet[Allocation]) -> QuerySet[Allocation]:
        return selectors.allocations(self.actor)
