from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar

from django.db import transaction
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.models import Team
from accounts.states import Right
from clusters.choosing import ClusterRequirements
from common import clock
from common.api.streams import stream_response
from common.api.views import CreateEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint, WhyDeleted
from models_registry.models import Model
from releases.answer_stream import answer_events
from releases.api.named import (
    cluster_named,
    image_named,
    model_named,
    team_named,
    version_labelled,
    version_named,
)
from releases.api.serializers.adapters import LoadAdapterSerializer, ServiceAdapterSerializer
from releases.api.serializers.indicators import (
    DefineIndicatorSerializer,
    PushCountsSerializer,
    PushResultSerializer,
    ServiceIndicatorSerializer,
)
from releases.api.serializers.live import LiveQuerySerializer, LiveSerializer
from releases.api.serializers.playground import AskSerializer
from releases.api.serializers.pod_patches import (
    NewPodPatchSerializer,
    PodPatchDecisionSerializer,
    PodPatchSerializer,
)
from releases.api.serializers.releases import OptionalReasonSerializer, ReleaseSerializer
from releases.api.serializers.services import (
    FormerVersionSerializer,
    NewServiceSerializer,
    ReleaseHeaderSerializer,
    ReleaseKeySerializer,
    ReturnSerializer,
    ServiceChangeSerializer,
    ServiceSerializer,
)
from releases.api.serializers.traffic import (
    NewSlowThresholdSerializer,
    SlowThresholdSerializer,
    TrafficQuerySerializer,
    TrafficSerializer,
)
from releases.filters import ServiceFilter
from releases.models import PodPatch, Service, ServiceIndicator
from releases.pages.live import live_at
from releases.pages.traffic_charts import span_over
from releases.playground import worker_url
from releases.selectors.adapters import adapters_of
from releases.selectors.services import slow_thresholds, summarised, traffic_of
from releases.services.adapters import load_adapter, unload_adapter
from releases.services.freezing import resume_automation
from releases.services.indicators import (
    CountedStretch,
    define_indicator,
    push_counts,
    remove_indicator,
    set_indicators,
)
from releases.services.pod_patch import (
    approve_patch,
    patch_of,
    propose_patch,
    reject_patch,
    withdraw_patch,
)
from releases.services.release_header import set_release_header
from releases.services.returning import former_versions, return_to
from releases.services.service import change_service, create_service
from releases.services.threshold import set_slow_threshold


class Services(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint):
    """Services: a gateway endpoint and the version that serves it."""

    queryset = Service.objects.select_related(
        "team", "model", "cluster", "image", "stable_version__model"
    ).prefetch_related("indicators")
    serializer_class = ServiceSerializer
    inputs = {
        "create": NewServiceSerializer,
        "partial_update": ServiceChangeSerializer,
        "set_slow_threshold": NewSlowThresholdSerializer,
        "release_header": ReleaseHeaderSerializer,
        "resume_automation": OptionalReasonSerializer,
        "return_to": ReturnSerializer,
        "propose_pod_patch": NewPodPatchSerializer,
        "approve_pod_patch": PodPatchDecisionSerializer,
        "reject_pod_patch": PodPatchDecisionSerializer,
        "withdraw_pod_patch": PodPatchDecisionSerializer,
        "load_adapter": LoadAdapterSerializer,
        "define_indicator": DefineIndicatorSerializer,
        "push_counts": PushCountsSerializer,
        "ask": AskSerializer,
    }
    # An answer is sent once.
    secret_answers = frozenset({"ask"})
    parameters = {"traffic": ("since", "until", "step_seconds"), "live": ("at",)}
    created_status = 202
    lookup_field = "name"
    lookup_url_kwarg = "service"
    lookup_value_converter = "str"
    sort = ("name", "-created_at")
    filterset_class = ServiceFilter
    needs: ClassVar = {
        "create": Right.SERVICES_WRITE,
        "partial_update": Right.SERVICES_WRITE,
        "release_header": Right.SERVICES_WRITE,
        "resume_automation": Right.RELEASES_OPERATE,
        "return_to": Right.RELEASES_OPERATE,
        "propose_pod_patch": Right.SERVICES_WRITE,
        "approve_pod_patch": Right.RELEASES_APPROVE,
        "reject_pod_patch": Right.RELEASES_APPROVE,
        "withdraw_pod_patch": Right.SERVICES_WRITE,
        "set_slow_threshold": Right.RELEASES_APPROVE,
        "load_adapter": Right.RELEASES_START,
        "unload_adapter": Right.RELEASES_START,
        "define_indicator": Right.SERVICES_WRITE,
        "remove_indicator": Right.SERVICES_WRITE,
        "push_counts": Right.RELEASES_START,
        "ask": Right.SERVICES_WRITE,
    }

    def service_of(self, row: Service) -> str:
        return row.name

    def get_object(self) -> Service:
        return summarised([super().get_object()])[0]

    def shown(self, page: Any) -> Any:
        return super().shown(summarised(page))

    def create_one(self, given: dict[str, Any]) -> Service:
        model = model_named(self, given.pop("model"))
        if "plan" in given:
            given["plan_name"] = given.pop("plan")
        given |= {
            "team": self._owner(given.pop("team", None), model),
            "version": version_named(self, model, given.pop("version")),
            "cluster": cluster_named(self, given["cluster"]) if "cluster" in given else None,
            "model": model,
            "image": image_named(self, given.get("image")),
        }
        if rule := given.get("cluster_rule"):
            given["cluster_rule"] = ClusterRequirements.read(rule)
        indicators = given.pop("indicators", [])
        with transaction.atomic():
            made = create_service(actor=self.actor, **given)
            set_indicators(made, actor=self.actor, indicators=indicators)
        return summarised([made])[0]

    def _owner(self, name: str | None, model: Model) -> Team:
        """Who is in several teams means the model's, unless another is named."""
        if name is None and accounts.may(self.actor, Right.SERVICES_WRITE, model.team):
            return model.team
        return team_named(self, name, Right.SERVICES_WRITE)

    def change_one(self, instance: Service, given: dict[str, Any], expected: int | None) -> Service:
        if "plan" in given:
            given["plan_name"] = given.pop("plan")
        if "image" in given:
            given["image"] = image_named(self, given["image"])
        indicators, reason = given.pop("indicators", None), given.get("reason", "")
        with transaction.atomic():
            changed = change_service(instance, actor=self.actor, expected_revision=expected, **given)
            if indicators is not None:
                set_indicators(changed, actor=self.actor, indicators=indicators, reason=reason)
        # Indicators were read before the change.
        vars(changed).pop("_prefetched_objects_cache", None)
        return summarised([changed])[0]

    @extend_schema(responses=ReleaseKeySerializer)
    @action(detail=True, methods=["post"], url_path="release-header")
    def release_header(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Set who may choose stable or candidate by the header x-release."""
        given = self.given()
        key = set_release_header(
            self.get_object(),
            actor=self.actor,
            header=given["release_header"],
            reason=given.get("reason", ""),
        )
        shown = {"release_header": given["release_header"], "release_key": key or None}
        return Response(ReleaseKeySerializer(shown).data, headers={"Cache-Control": "no-store"})

    @extend_schema(responses=ServiceSerializer)
    @action(detail=True, methods=["post"], url_path="resume-automation")
    def resume_automation(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Let releases start by themselves again, which a rollback by hand has paused."""
        service = self.get_object()
        resume_automation(service, actor=self.actor, **self.given())
        return self.answer(self.get_object())

    @extend_schema(responses=FormerVersionSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], url_path="former-versions", pagination_class=None)
    def former_versions(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Versions that served before, the latest first, and what returning to one takes."""
        return Response(FormerVersionSerializer(former_versions(self.get_object()), many=True).data)

    @extend_schema(responses={202: ReleaseSerializer})
    @action(detail=True, methods=["post"], url_path="return")
    def return_to(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return to a version that served before, without what the release policy lets be skipped."""
        service, given = self.get_object(), self.given()
        version = version_named(self, service.model, given["version"])
        release = return_to(service, version=version, actor=self.actor, reason=given["reason"])
        return Response(ReleaseSerializer(release, context=self.get_serializer_context()).data, status=202)

    @extend_schema(parameters=[TrafficQuerySerializer], responses=TrafficSerializer)
    @action(detail=True, methods=["get"])
    def traffic(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Traffic per version over the last hours or days."""
        service = self.get_object()
        query = TrafficQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = query.validated_data
        span = span_over(given["until"] - given["since"])
        step = timedelta(seconds=given.get("step_seconds", span.step_seconds) // 60 * 60)
        told = traffic_of(service, since=given["since"], until=given["until"], step=step)
        shown = {"service": service.name, **given, "step_seconds": int(step.total_seconds()), "points": told}
        return Response(TrafficSerializer(shown).data)

    @extend_schema(parameters=[LiveQuerySerializer], responses=LiveSerializer)
    @action(detail=True, methods=["get"])
    def live(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Versions that answered at a time in the past: shares, since when, by which release and approval."""
        query = LiveQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        found = live_at(self.get_object(), query.validated_data.get("at") or clock.now())
        return Response(LiveSerializer(found).data)

    @extend_schema(responses=PodPatchSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], url_path="pod-patches")
    def pod_patches(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Patches of the pod template, newest first."""
        rows = self.get_object().pod_patches.all()[:100]
        return Response(PodPatchSerializer(rows, many=True).data)

    @extend_schema(responses={201: PodPatchSerializer})
    @pod_patches.mapping.post
    def propose_pod_patch(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Propose a patch of the pod template; somebody else approves it."""
        row = propose_patch(self.get_object(), actor=self.actor, **self.given())
        return Response(PodPatchSerializer(row).data, status=201)

    @extend_schema(responses=PodPatchSerializer)
    @action(detail=True, methods=["post"], url_path="pod-patches/<int:patch>/approve")
    def approve_pod_patch(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Approve a proposed patch; it takes effect with the next release."""
        return self._decided(approve_patch)

    @extend_schema(responses=PodPatchSerializer)
    @action(detail=True, methods=["post"], url_path="pod-patches/<int:patch>/reject")
    def reject_pod_patch(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Reject a proposed patch."""
        return self._decided(reject_patch)

    @extend_schema(responses=PodPatchSerializer)
    @action(detail=True, methods=["post"], url_path="pod-patches/<int:patch>/withdraw")
    def withdraw_pod_patch(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Withdraw a proposed patch."""
        return self._decided(withdraw_patch)

    def _decided(self, decide: Callable[..., PodPatch]) -> Response:
        row = patch_of(self.get_object(), self.kwargs["patch"])
        return Response(PodPatchSerializer(decide(row, actor=self.actor, **self.given())).data)

    @extend_schema(responses=ServiceAdapterSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"])
    def adapters(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """LoRA adapters of a service, and how many workers have loaded each."""
        return Response(ServiceAdapterSerializer(adapters_of(self.get_object()), many=True).data)

    @extend_schema(responses={202: ServiceAdapterSerializer})
    @action(detail=True, methods=["put"], url_path="adapters/<str:adapter>")
    def load_adapter(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Load a LoRA adapter into the running workers; a restarted worker loads it again."""
        service, name = self.get_object(), self.kwargs["adapter"]
        given = self.given()
        version = version_labelled(self, given.pop("version"))
        load_adapter(service, actor=self.actor, name=name, version=version, **given)
        shown = next(one for one in adapters_of(service) if one.row.name == name)
        return Response(ServiceAdapterSerializer(shown).data, status=202)

    @extend_schema(request=None, parameters=[WhyDeleted], responses={204: None})
    @load_adapter.mapping.delete
    def unload_adapter(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Unload a LoRA adapter from all workers."""
        query = WhyDeleted(data=request.query_params)
        query.is_valid(raise_exception=True)
        name = self.kwargs["adapter"]
        unload_adapter(self.get_object(), actor=self.actor, name=name, **query.validated_data)
        return Response(status=204)

    @extend_schema(responses=ServiceIndicatorSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"])
    def indicators(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Indicators of a service that others than its workers count."""
        rows = ServiceIndicator.objects.filter(service=self.get_object())
        return Response(ServiceIndicatorSerializer(rows, many=True).data)

    @extend_schema(responses=ServiceIndicatorSerializer)
    @action(detail=True, methods=["put"], url_path="indicators/<str:indicator>")
    def define_indicator(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Define an indicator, or change it; plans judge it by its name."""
        service = self.get_object()
        row = define_indicator(service, actor=self.actor, name=self.kwargs["indicator"], **self.given())
        return Response(ServiceIndicatorSerializer(row).data)

    @extend_schema(request=None, parameters=[WhyDeleted], responses={204: None})
    @define_indicator.mapping.delete
    def remove_indicator(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Remove an indicator with its counts."""
        query = WhyDeleted(data=request.query_params)
        query.is_valid(raise_exception=True)
        name = self.kwargs["indicator"]
        remove_indicator(self.get_object(), actor=self.actor, name=name, **query.validated_data)
        return Response(status=204)

    @extend_schema(responses=PushResultSerializer)
    @action(detail=True, methods=["post"], url_path="indicators/<str:indicator>/counts")
    def push_counts(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Push counts of an indicator, by version and stretch of time; pushing twice or late does no harm."""
        service, name = self.get_object(), self.kwargs["indicator"]
        given = self.given()["counts"]
        versions = {label: version_labelled(self, label) for label in {one["version"] for one in given}}
        stretches = [CountedStretch(**{**one, "version": versions[one["version"]]}) for one in given]
        found = push_counts(service, actor=self.actor, indicator=name, counts=stretches)
        return Response(PushResultSerializer(found).data)

    @extend_schema(responses=SlowThresholdSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], url_path="slow-thresholds")
    def slow_thresholds(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Slow-request thresholds of a service, newest first."""
        rows = slow_thresholds(self.get_object())[:100]
        return Response(SlowThresholdSerializer(rows, many=True).data)

    @extend_schema(responses={201: SlowThresholdSerializer})
    @slow_thresholds.mapping.post
    def set_slow_threshold(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Set the slow-request threshold, from the next release on."""
        row = set_slow_threshold(self.get_object(), actor=self.actor, **self.given())
        return Response(SlowThresholdSerializer(row).data, status=201)

    @extend_schema(responses={(200, "text/event-stream"): OpenApiTypes.STR})
    @action(detail=True, methods=["post"])
    def ask(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Ask a worker of stable or of the candidate, past the gateway. Server-sent events tell the answer
        while it comes: `answer` has its status, `text` a piece of it, `end` its tokens and problem.
        """
        given = self.given()
        url = worker_url(self.get_object(), actor=self.actor, side=given["side"])
        return stream_response(answer_events(url + given["path"], method=given["method"], body=given["body"]))
