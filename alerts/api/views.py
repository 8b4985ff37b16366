from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.permissions import InstallationRight
from accounts.selectors import team_named
from accounts.states import Right
from alerts.api import serializers
from alerts.checks import checks
from alerts.filters import AlertFilter, AlertGroupFilter
from alerts.models import AlertEvaluation, AlertGroup, AlertSilence, RaisedAlert
from alerts.selectors import alerts_for, check_statuses, groups_for, silences_for
from alerts.services import care
from common.api.views import CreateEndpoint, DestroyEndpoint, Endpoint, ListEndpoint, RetrieveEndpoint
from common.errors import Missing


class Alerts(ListEndpoint, RetrieveEndpoint):
    """Alerts of the fleet, its services and the installation, the newest first."""

    queryset = RaisedAlert.objects.all()
    serializer_class = serializers.AlertSerializer
    filterset_class = AlertFilter
    lookup_value_converter = "int"
    sort = ("-began_at",)
    inputs: ClassVar = {
        "acknowledge": serializers.AcknowledgeSerializer,
        "silence": serializers.SilenceAlertSerializer,
    }
    needs: ClassVar = dict.fromkeys(("acknowledge", "silence"), Right.ALERTS_WRITE)

    def visible(self, rows: QuerySet[RaisedAlert]) -> QuerySet[RaisedAlert]:
        return alerts_for(self.actor)

    @extend_schema(responses={200: serializers.AlertSerializer})
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say that somebody looks after it: it stays open, and nobody is told of it again."""
        row = self.get_object()
        given = self.given()
        return self.answer(care.acknowledge_alert(row, actor=self.actor, reason=given.get("reason", "")))

    @extend_schema(responses={200: serializers.AlertSerializer})
    @action(detail=True, methods=["post"])
    def silence(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Silence this alert for some hours, also when it ends and comes back meanwhile."""
        row = self.get_object()
        care.silence_alert(row, actor=self.actor, **self.given())
        row.refresh_from_db()
        return self.answer(row)


class AlertGroups(ListEndpoint, RetrieveEndpoint):
    """Open alerts by group: of one check about one service, deployment or cluster; what fires first."""

    queryset = AlertGroup.objects.all()
    serializer_class = serializers.AlertGroupSerializer
    lookup_value_converter = "int"
    sort = ("began_at", "-number")
    filterset_class = AlertGroupFilter
    inputs: ClassVar = Alerts.inputs
    outputs: ClassVar = {"silence": serializers.AlertSilenceSerializer}
    needs: ClassVar = Alerts.needs

    def visible(self, rows: QuerySet[AlertGroup]) -> QuerySet[AlertGroup]:
        return groups_for(self.actor)

    @extend_schema(responses={200: serializers.AlertGroupSerializer})
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say that somebody looks after all open alerts of the group."""
        row, given = self.get_object(), self.given()
        care.acknowledge_group(row, actor=self.actor, reason=given.get("reason", ""))
        return self.answer(self.get_object())

    @extend_schema(responses={200: serializers.AlertSilenceSerializer})
    @action(detail=True, methods=["post"])
    def silence(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Silence the group for some hours, alerts that join it included."""
        return self.answer(care.silence_group(self.get_object(), actor=self.actor, **self.given()))


class AlertSilences(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Silences that have not ended."""

    queryset = AlertSilence.objects.all()
    serializer_class = serializers.AlertSilenceSerializer
    lookup_value_converter = "int"
    sort = ("-starts_at",)
    inputs: ClassVar = {"create": serializers.NewAlertSilenceSerializer}
    needs: ClassVar = dict.fromkeys(("create", "destroy"), Right.ALERTS_WRITE)

    def visible(self, rows: QuerySet[AlertSilence]) -> QuerySet[AlertSilence]:
        return silences_for(self.actor)

    def create_one(self, given: dict[str, Any]) -> AlertSilence:
        name = given.pop("team", None)
        team = team_named(self.actor, name) if name else None
        return care.create_silence(actor=self.actor, team=team, **given)

    def delete_one(self, instance: AlertSilence, expected: int | None, reason: str) -> None:
        care.end_silence(instance, actor=self.actor, reason=reason)


class AlertChecks(Endpoint):
    """Checks that the control plane makes every 15 seconds."""

    queryset = RaisedAlert.objects.none()
    serializer_class = serializers.AlertCheckSerializer
    pagination_class = None
    lookup_field = "check_name"
    lookup_url_kwarg = "check"
    inputs: ClassVar = {"partial_update": serializers.CheckChangeSerializer}
    needs: ClassVar = {"partial_update": InstallationRight(Right.ALERTS_WRITE)}

    @extend_schema(responses={200: serializers.AlertChecksSerializer})
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List all checks with the number of their open alerts."""
        return Response({"results": self.get_serializer(self._statuses(), many=True).data})

    @extend_schema(responses={200: serializers.AlertCheckSerializer})
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Turn a check on or off, for the whole installation."""
        name, given = self.kwargs["check"], self.given()
        if name not in checks():
            raise Missing(_("There is no such check."))
        if "is_on" in given:
            care.turn_check(name, actor=self.actor, on=given["is_on"], reason=given.get("reason", ""))
        return Response(
            self.get_serializer(next(one for one in self._statuses() if one.check.name == name)).data
        )

    def _statuses(self) -> Any:
        row = AlertEvaluation.objects.first()
        return check_statuses(self.actor, row.problems if row else {})
