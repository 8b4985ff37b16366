from typing import Any, ClassVar, cast

from django.db.models import QuerySet
from django.http import Http404
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.permissions import InstallationRight
from accounts.states import Right
from clusters.models import Cluster
from clusters.services.node_reports import reporting_agent
from common.api.views import DestroyEndpoint, Endpoint, ListEndpoint, PutEndpoint, RetrieveEndpoint
from gpu_health import selectors
from gpu_health.api import serializers
from gpu_health.errors import InvalidRule, RuleMissing
from gpu_health.filters import FindingFilter
from gpu_health.models import Finding, RuleChange
from gpu_health.policy.disagreements import comparisons
from gpu_health.rulebook import presets_now
from gpu_health.selectors import RuleInForce
from gpu_health.services import rules as rule_services
from gpu_health.services.findings import close_finding
from gpu_health.services.presets import check_preset, choose_preset
from gpu_health.services.readings import accept_readings


class Findings(ListEndpoint, RetrieveEndpoint):
    """Faults of machines and GPUs: how each was judged, what would be done, and why."""

    queryset = Finding.objects.select_related("node__cluster__team")
    serializer_class = serializers.GpuFindingSerializer
    inputs: ClassVar = {"close": serializers.GpuClosingSerializer}
    filterset_class = FindingFilter
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("-last_at", "-opened_at")
    needs: ClassVar = {"close": Right.FLEET_OPERATE}

    @extend_schema(responses={200: serializers.GpuFindingSerializer})
    @action(detail=True, methods=["post"])
    def close(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Close: the fault is dealt with. What was seen of it so far counts for no other finding."""
        reason = self.given()["reason"]
        return self.answer(close_finding(actor=self.actor, finding=self.get_object(), reason=reason))


class GpuRules(PutEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Rules: which fault under which conditions is how bad, what follows, and which document says so."""

    queryset = RuleChange.objects.none()
    serializer_class = serializers.GpuRuleSerializer
    inputs: ClassVar = {
        "update": serializers.GpuRuleChangeSerializer,
        "preview": serializers.GpuProposedRuleSerializer,
        "create": serializers.GpuNewRuleSerializer,
        "imagine": serializers.GpuThoughtRuleSerializer,
        "choose": serializers.GpuPresetChoiceSerializer,
        "try_preset": serializers.GpuPresetTrialSerializer,
    }
    outputs: ClassVar = {
        "preview": serializers.GpuRuleTrialSerializer,
        "imagine": serializers.GpuRuleTrialSerializer,
        "try_preset": serializers.GpuRuleTrialSerializer,
    }
    lookup_field = "name"
    lookup_url_kwarg = "rule"
    lookup_value_converter = "str"
    pagination_class = None
    needs: ClassVar = dict.fromkeys(
        ("create", "choose", "update", "destroy"), InstallationRight(Right.FLEET_OPERATE)
    )

    def visible(self, rows: QuerySet[RuleChange]) -> QuerySet[RuleChange]:
        return rows

    def get_object(self) -> Any:
        try:
            return selectors.rule_in_force(self.kwargs["rule"])
        except RuleMissing:
            raise Http404 from None

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the rules in force; all on one page."""
        rows = selectors.rules_in_force()
        return Response(
            {"results": self.get_serializer(rows, many=True).data, "next": None, "previous": None}
        )

    def put_one(self, instance: RuleInForce | None, given: dict[str, Any], expected: int | None) -> Any:
        if instance is None:
            raise Http404
        reason = given.pop("reason")
        name = instance.rule.name
        rule_services.change_rule(actor=self.actor, name=name, given=given, reason=reason)
        return self.get_object()

    @extend_schema(request=serializers.GpuNewRuleSerializer, responses={201: serializers.GpuRuleSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Add a rule of the installation's own. Where it holds, it outranks those of documents."""
        given = self.given()
        reason = given.pop("reason")
        row = rule_services.add_rule(actor=self.actor, given=given, reason=reason)
        return Response(self.get_serializer(selectors.rule_in_force(row.name)).data, status=201)

    def delete_one(self, instance: RuleInForce, expected: int | None, reason: str) -> None:
        """Back to what its source says; one that was added is deleted."""
        rule_services.reset_rule(actor=self.actor, name=instance.rule.name, reason=reason)

    @extend_schema(responses={200: serializers.GpuRuleTrialSerializer})
    @action(detail=True, methods=["post"])
    def preview(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Tell what the changed rule would have done over the last 30 days. Changes nothing."""
        rule, _values = rule_services.proposed_rule(self.get_object().rule.name, self.given())
        return Response(self.get_serializer(selectors.try_rule(self.actor, rule)).data)

    @extend_schema(responses={200: serializers.GpuRuleTrialSerializer})
    @action(detail=False, methods=["post"], url_path="try")
    def imagine(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Tell what a new rule would have done over the last 30 days. Changes nothing."""
        rule = rule_services.new_rule(self.given()).own_rule()
        return Response(self.get_serializer(selectors.try_rule(self.actor, rule)).data)

    @extend_schema(responses={200: serializers.GpuPresetsSerializer})
    @action(detail=False, methods=["get"])
    def presets(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the presets: whose rules the installation and its clusters start from."""
        return self._presets()

    @extend_schema(responses={200: serializers.GpuRuleTrialSerializer})
    @action(detail=False, methods=["post"], url_path="presets/preview")
    def try_preset(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Tell what a preset would have done over the last 30 days. Changes nothing."""
        given = self.given()
        cluster = self._cluster(given)
        check_preset(given["preset"], None)
        return Response(self.get_serializer(selectors.try_preset(self.actor, given["preset"], cluster)).data)

    @extend_schema(responses={200: serializers.GpuPresetsSerializer})
    @action(detail=False, methods=["post"], url_path="presets/choose")
    def choose(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Choose whose rules the installation, or one cluster, starts from. Requires `fleet.operate` in the
        whole installation."""
        given = self.given()
        cluster = self._cluster(given)
        choose_preset(actor=self.actor, preset=given["preset"], cluster=cluster, reason=given["reason"])
        return self._presets()

    def _presets(self) -> Response:
        rows = serializers.GpuPresetSerializer(presets_now(), many=True).data
        return Response({"results": rows, "next": None, "previous": None})

    def _cluster(self, given: dict[str, Any]) -> Cluster | None:
        name = given.get("cluster", "")
        if not name:
            return None
        found = Cluster.objects.for_actor(self.actor).filter(name=name).first()
        if found is None:
            raise InvalidRule(fields={"cluster": [_("There is no cluster %(name)s.") % {"name": name}]})
        return found

    @extend_schema(responses={200: serializers.GpuDisagreementsSerializer})
    @action(detail=False, methods=["get"])
    def disagreements(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List where the sources contradict each other: what each says about every fault."""
        rows = serializers.GpuDisagreementSerializer(list(comparisons()), many=True).data  # type: ignore[arg-type]
        return Response({"results": rows, "next": None, "previous": None})


class Readings(Endpoint):
    """The readings that machines take of their GPUs."""

    serves_reporters = True
    queryset = Finding.objects.none()
    serializer_class = serializers.GpuReceiptSerializer
    inputs: ClassVar = {"create": serializers.GpuReadingsSerializer}
    pagination_class = None
    needs: ClassVar = {"create": Right.FLEET_REPORT}

    def visible(self, rows: QuerySet[Finding]) -> QuerySet[Finding]:
        return rows

    @extend_schema(
        request=serializers.GpuReadingsSerializer,
        responses=serializers.GpuReceiptSerializer,
        operation_id="report_gpu_readings",
    )
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The agent of a machine reports what it saw of its GPUs; each reading counts once.

        Invalid entries are listed in `refused`; the others are stored. Requires the right `fleet.report`, by
        a token of this machine. 409 while the cluster does not show the machine.
        """
        agent = reporting_agent(cast("Any", self.actor))
        given = self.given()
        found = accept_readings(
            cluster_id=agent.cluster_id,
            node_uid=agent.node_uid,
            entries=given["readings"],
            sent_at=given.get("sent_at"),
            boot=given.get("boot", ""),
        )
        return Response(self.get_serializer(found).data)
