from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.permissions import InstallationRight
from accounts.states import Right
from common.api.views import Endpoint, ListEndpoint, RetrieveEndpoint
from gpu_health import selectors
from gpu_health.api import healing_serializers as serializers
from gpu_health.filters import IncidentFilter
from gpu_health.incident_facts import policy
from gpu_health.models import HealingPolicy, HealingPool, Incident
from gpu_health.rma_answer import zip_of
from gpu_health.services import healing, incidents

SHOWN = extend_schema(responses={200: serializers.GpuIncidentSerializer})


class Incidents(ListEndpoint, RetrieveEndpoint):
    """Machines with a fault on their way through the ladder, from the first finding to their return."""

    queryset = Incident.objects.select_related("node__cluster__team")
    serializer_class = serializers.GpuIncidentSerializer
    inputs: ClassVar = {
        **dict.fromkeys(
            ("approve", "approve_domain", "cordon_domain", "hold", "resume", "verify"),
            serializers.GpuDeedSerializer,
        ),
        "cancel": serializers.GpuCancellingSerializer,
    }
    filterset_class = IncidentFilter
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-opened_at",)
    needs: ClassVar = dict.fromkeys(
        ("approve", "approve_domain", "cordon_domain", "hold", "resume", "verify", "cancel"),
        Right.FLEET_OPERATE,
    )

    @extend_schema(responses={200: serializers.GpuIncidentTimelineSerializer})
    @action(detail=True, methods=["get"])
    def timeline(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List what happened, from the first line to the return to service; all on one page."""
        told = serializers.GpuIncidentEntrySerializer(self.get_object().timeline.all(), many=True).data
        return Response({"results": told, "next": None, "previous": None})

    @extend_schema(responses={200: serializers.GpuIncidentEvidenceSerializer})
    @action(detail=True, methods=["get"])
    def evidence(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return what was collected before the last action: serials, readings, outputs of tools."""
        incident = self.get_object()
        return Response({"incident": incident.pk, "evidence": incident.evidence})

    @extend_schema(responses={(200, "application/zip"): OpenApiTypes.BINARY})
    @action(detail=True, methods=["get"])
    def rma(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """All that the machine's vendor asks for, as a zip: serial numbers, logs, counters, checks."""
        return zip_of(self.get_object())

    @SHOWN
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Approve the action, or the return to service, that it asks approval for. People only."""
        return self._deed(incidents.approve)

    @SHOWN
    @action(detail=True, methods=["post"], url_path="approve-domain")
    def approve_domain(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Approve what every machine of its rack or NVLink domain waits for, that waits for its sake."""
        incident = self.get_object()
        incidents.approve_domain(actor=self.actor, incident=incident, reason=self.given()["reason"])
        incident.refresh_from_db()
        return self.answer(incident)

    @SHOWN
    @action(detail=True, methods=["post"], url_path="cordon-domain")
    def cordon_domain(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cordon the machines of its domain that are in service; a person uncordons them again."""
        incident = self.get_object()
        incidents.cordon_domain(actor=self.actor, incident=incident, reason=self.given()["reason"])
        return self.answer(incident)

    @SHOWN
    @action(detail=True, methods=["post"])
    def hold(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Hold: nothing more is done until somebody resumes it; what is under way goes on."""
        return self._deed(incidents.hold)

    @SHOWN
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Resume what somebody holds."""
        return self._deed(incidents.resume)

    @SHOWN
    @action(detail=True, methods=["post"])
    def verify(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A person has dealt with it: the machine is checked, and returns if that passes."""
        return self._deed(incidents.verify_again)

    @SHOWN
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Do no more about it. An action that is under way is waited for."""
        given = self.given()
        return self.answer(
            incidents.cancel(
                actor=self.actor,
                incident=self.get_object(),
                returns=given["return_to_service"],
                reason=given["reason"],
            )
        )

    def _deed(self, deed: Callable[..., Incident]) -> Response:
        reason = self.given()["reason"]
        return self.answer(deed(actor=self.actor, incident=self.get_object(), reason=reason))


@extend_schema(exclude=True)
class Remediations(Incidents):
    """The incidents, under the name that clients were promised first."""


class Healing(Endpoint):
    """Whether healing acts, within which limits, and its kill switch."""

    queryset = HealingPolicy.objects.none()
    serializer_class = serializers.GpuHealingSerializer
    inputs: ClassVar = {
        "change": serializers.GpuHealingChangeSerializer,
        "stop": serializers.GpuStopSerializer,
        "restart": serializers.GpuDeedSerializer,
    }
    pagination_class = None
    needs: ClassVar = {
        "stop": Right.FLEET_OPERATE,
        "restart": InstallationRight(Right.FLEET_OPERATE),
        "change": InstallationRight(Right.FLEET_OPERATE),
    }

    def visible(self, rows: QuerySet[HealingPolicy]) -> QuerySet[HealingPolicy]:
        return rows

    @extend_schema(responses={200: serializers.GpuHealingSerializer}, operation_id="gpu_healing")
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get the healing policy."""
        return Response(self.get_serializer(policy()).data)

    @extend_schema(responses={200: serializers.GpuHealingSerializer})
    @action(detail=False, methods=["post"])
    def change(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Change the policy; what is not given stays. Requires `fleet.operate` in the whole installation."""
        given = self.given()
        reason = given.pop("reason")
        changed = healing.change_policy(actor=self.actor, given=given, reason=reason)
        return Response(self.get_serializer(changed).data)

    @extend_schema(responses={200: serializers.GpuHealingSerializer})
    @action(detail=False, methods=["post"])
    def stop(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The kill switch: nothing more is begun anywhere. Whoever may operate machines of a team may."""
        given = self.given()
        stopped = healing.stop_healing(
            actor=self.actor, reason=given["reason"], stops_drains=given["stop_drains"]
        )
        return Response(self.get_serializer(stopped).data)

    @extend_schema(responses={200: serializers.GpuHealingSerializer})
    @action(detail=False, methods=["post"])
    def restart(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Switch the kill switch off. Requires `fleet.operate` in the whole installation."""
        resumed = healing.resume_healing(actor=self.actor, reason=self.given()["reason"])
        return Response(self.get_serializer(resumed).data)


class HealingPools(ListEndpoint):
    """Pools of machines: slots taken, and breakers."""

    queryset = HealingPool.objects.none()
    serializer_class = serializers.GpuPoolSerializer
    inputs: ClassVar = {"close_breaker": serializers.GpuBreakerSerializer}
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("name",)
    needs: ClassVar = {"close_breaker": InstallationRight(Right.FLEET_OPERATE)}

    def visible(self, rows: QuerySet[HealingPool]) -> QuerySet[HealingPool]:
        return selectors.pools()

    @extend_schema(responses={200: serializers.GpuPoolSerializer})
    @action(detail=True, methods=["post"], url_path="close-breaker")
    def close_breaker(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Close the breaker; its backlog is replayed or discarded. Requires `fleet.operate` everywhere."""
        given = self.given()
        pool = self.get_object()
        healing.close_breaker(
            actor=self.actor, pool=pool, replays=given["backlog"] == "replay", reason=given["reason"]
        )
        return Response(self.get_serializer(selectors.pool(pool.pk)).data)
