from datetime import timedelta
from functools import partial
from typing import Any, cast

import django_filters
from django.db.models import QuerySet
from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.actors import again
from accounts.models import Team
from accounts.services import require
from accounts.states import Right
from clusters.models import Cluster
from common.actor import Actor
from common.api.streams import ServerEvent, events_response
from common.api.views import Changed, Created, Deleted, Endpoint, Listed, Put, Read
from common.errors import Conflict, Invalid, Missing
from images import selectors as catalogue
from images.models import RuntimeImage
from models_registry import selectors as registry
from models_registry.models import Model, Version
from releases import plans, selectors, services
from releases.api import serializers
from releases.models import Plan, Release, Service, TeamPolicy
from releases.pages.traffic_charts import span_over
from releases.states import MOVES, ReleaseState
from releases.succession import with_succession


class ServiceFilter(django_filters.FilterSet):  # type: ignore[misc]
    team = django_filters.CharFilter("team__name")
    cluster = django_filters.CharFilter("cluster__name")
    model = django_filters.CharFilter("model__name")


class ReleaseFilter(django_filters.FilterSet):  # type: ignore[misc]
    state = django_filters.ChoiceFilter(choices=ReleaseState.choices)
    service = django_filters.CharFilter("service__name")
    team = django_filters.CharFilter("team__name")
    plan = django_filters.CharFilter("plan_name")


class Services(Listed, Created, Read, Changed):
    """Services: an address behind the gateway, and the version that answers there."""

    queryset = Service.objects.select_related("team", "model", "cluster", "image", "stable_version__model")
    serializer_class = serializers.ServiceSerializer
    inputs = {
        "create": serializers.NewServiceSerializer,
        "partial_update": serializers.ServiceChangeSerializer,
        "set_slow_threshold": serializers.NewSlowThresholdSerializer,
        "release_header": serializers.ReleaseHeaderSerializer,
    }
    parameters = {"traffic": ("since", "until", "step_seconds")}
    created_status = 202
    lookup_field = "name"
    lookup_url_kwarg = "service"
    lookup_value_converter = "str"
    sort = ("name", "-created_at")
    search_fields = ("name", "description", "model__name")
    filterset_class = ServiceFilter

    def get_object(self) -> Service:
        return selectors.summarised([super().get_object()])[0]

    def shown(self, page: Any) -> Any:
        return super().shown(selectors.summarised(page))

    def create_one(self, given: dict[str, Any]) -> Service:
        model = _model(self, given.pop("model"))
        if "plan" in given:
            given["plan_name"] = given.pop("plan")
        given |= {
            "team": self._owner(given.pop("team", None), model),
            "version": _version(self, model, given.pop("version")),
            "cluster": _cluster(self, given["cluster"]),
            "model": model,
            "image": _image(self, given.get("image")),
        }
        return selectors.summarised([services.create_service(actor=self.actor, **given)])[0]

    def _owner(self, name: str | None, model: Model) -> Team:
        """Who is in several teams means the model's, unless another is named."""
        if name is None and accounts.may(self.actor, Right.SERVICES_WRITE, model.team):
            return model.team
        return _team(self, name, Right.SERVICES_WRITE)

    def change_one(self, instance: Service, given: dict[str, Any], expected: int | None) -> Service:
        if "plan" in given:
            given["plan_name"] = given.pop("plan")
        if "image" in given:
            given["image"] = _image(self, given["image"])
        changed = services.change_service(instance, actor=self.actor, expected_revision=expected, **given)
        return selectors.summarised([changed])[0]

    @extend_schema(responses=serializers.ReleaseKeySerializer)
    @action(detail=True, methods=["post"], url_path="release-header")
    def release_header(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say who may choose stable or the candidate by a header."""
        given = self.given()
        key = services.set_release_header(
            self.get_object(),
            actor=self.actor,
            header=given["release_header"],
            reason=given.get("reason", ""),
        )
        shown = {"release_header": given["release_header"], "release_key": key or None}
        return Response(serializers.ReleaseKeySerializer(shown).data, headers={"Cache-Control": "no-store"})

    @extend_schema(parameters=[serializers.TrafficQuerySerializer], responses=serializers.TrafficSerializer)
    @action(detail=True, methods=["get"])
    def traffic(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """What each version answered over the last hours, minute by minute."""
        service = self.get_object()
        query = serializers.TrafficQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        given = query.validated_data
        span = span_over(given["until"] - given["since"])
        step = timedelta(seconds=given.get("step_seconds", span.step_seconds) // 60 * 60)
        told = selectors.traffic_of(service, since=given["since"], until=given["until"], step=step)
        shown = {"service": service.name, **given, "step_seconds": int(step.total_seconds()), "points": told}
        return Response(serializers.TrafficSerializer(shown).data)

    @extend_schema(responses=serializers.SlowThresholdSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], url_path="slow-thresholds")
    def slow_thresholds(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """From when on an answer of this service is slow: the newest first, and those before it."""
        rows = selectors.slow_thresholds(self.get_object())[:100]
        return Response(serializers.SlowThresholdSerializer(rows, many=True).data)

    @extend_schema(responses={201: serializers.SlowThresholdSerializer})
    @slow_thresholds.mapping.post
    def set_slow_threshold(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Call slower than that slow, from the next release on."""
        row = services.set_slow_threshold(self.get_object(), actor=self.actor, **self.given())
        return Response(serializers.SlowThresholdSerializer(row).data, status=201)


class Releases(Listed, Created, Read):
    """Releases: one version on its way to all of a service's traffic."""

    queryset = with_succession(Release.objects.all()).select_related(
        "team", "service__model", "version__model", "from_version__model", "image"
    )
    serializer_class = serializers.ReleaseSerializer
    inputs = {
        "create": serializers.NewReleaseSerializer,
        **dict.fromkeys(("approve", "reject", "abort", "rollback"), serializers.ReasonSerializer),
        **dict.fromkeys(("pause", "resume", "end_bake"), serializers.OptionalReasonSerializer),
    }
    outputs = {"list": serializers.ReleaseRowSerializer}
    created_status = 202
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("-created_at", "created_at")
    search_fields = ("service__name", "version__model__name", "requester", "reason")
    filterset_class = ReleaseFilter

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        return rows if self.action == "list" else rows.prefetch_related("steps", "approvals__by")

    def create_one(self, given: dict[str, Any]) -> Release:
        service = Service.objects.for_actor(self.actor).filter(name=given["service"]).first()
        if service is None:
            raise Invalid(fields={"service": [_("There is no such service, or none that you may see.")]})
        model_name, _colon, version_name = given["version"].rpartition(":")
        for named in (model_name, given.get("model", "")):
            if named and named != service.model.name:
                raise Invalid(
                    fields={
                        "model": [
                            _("%(service)s serves %(model)s, not %(named)s.")
                            % {"service": service.name, "model": service.model.name, "named": named}
                        ]
                    }
                )
        return services.start_release(
            actor=self.actor,
            service=service,
            version=_version(self, service.model, version_name),
            plan_name=given.get("plan", ""),
            reason=given.get("reason", ""),
            image=_image(self, given.get("image")),
            bypass=given.get("bypass", ""),
        )

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say yes to the approval it waits for."""
        return self._wish(services.approve)

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Say no: all traffic returns to stable."""
        return self._wish(services.reject)

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stay at the present step; the judge keeps watching."""
        return self._wish(services.pause)

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Go on after a pause, or try a stuck release again."""
        return self._wish(services.resume)

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give up now: all traffic returns to stable."""
        return self._wish(services.abort)

    @extend_schema(responses=serializers.ReleaseSerializer)
    @action(detail=True, methods=["post"], url_path="end-bake")
    def end_bake(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Stop now the workers that are kept warm for a rollback."""
        return self._wish(services.end_bake)

    @extend_schema(
        responses=serializers.ReleaseSerializer,
        description="In motion: this release. Promoted: the release that brings the version before back.",
    )
    @action(detail=True, methods=["post"])
    def rollback(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Return to the version before."""
        release = services.rollback(self.get_object(), actor=self.actor, **self.given())
        return self.answer(self._fresh(release.pk))

    @extend_schema(
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
        parameters=[OpenApiParameter("Last-Event-ID", OpenApiTypes.STR, OpenApiParameter.HEADER)],
    )
    @action(detail=True, methods=["get"])
    def events(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Follow its moves as server-sent events until it ends."""
        release = self.get_object()
        return events_response(
            request._request,
            read=partial(_moves_after, release.pk),
            may_go_on=partial(_may_read, self.actor, release.pk),
        )

    def _wish(self, service: Any) -> Response:
        release = self.get_object()
        service(release, actor=self.actor, **self.given())
        return self.answer(self._fresh(release.pk))

    def _fresh(self, pk: int) -> Release:
        return cast("Release", self.get_queryset().get(pk=pk))


class Plans(Endpoint):
    """Release plans: the built-in ones, and those of your teams."""

    queryset = Plan.objects.select_related("team")
    serializer_class = serializers.PlanSerializer
    lookup_field = "name"
    lookup_url_kwarg = "plan"
    lookup_value_converter = "str"


OF_TEAM = OpenApiParameter("team", str, description="Whose plan, where several teams have one of this name.")


@extend_schema_view(
    retrieve=extend_schema(parameters=[OF_TEAM]),
    update=extend_schema(parameters=[OF_TEAM]),
    destroy=extend_schema(parameters=[OF_TEAM]),
)
class PlanCollection(Created, Read, Put, Deleted, Plans):
    inputs = {"create": serializers.NewPlanSerializer, "update": serializers.PlanChangeSerializer}
    parameters = dict.fromkeys(("retrieve", "destroy"), ("team",))

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the plans; they are few, so all on one page."""
        rows = selectors.plans_for(self.actor)
        return Response(
            {"results": self.get_serializer(rows, many=True).data, "next": None, "previous": None}
        )

    def get_object(self) -> Plan:
        name, team = self.kwargs["plan"], self.request.query_params.get("team")
        found = [plan for plan in selectors.plans_for(self.actor) if plan.name == name]
        if team:
            found = [plan for plan in found if plan.team_id and plan.team.name == team]
        if not found:
            raise Http404
        if len(found) > 1:
            teams = ", ".join(sorted(plan.team.name for plan in found if plan.team_id))
            raise Conflict(
                _("Several teams have a plan '%(name)s': %(teams)s. Say whose you mean: ?team=...")
                % {"name": name, "teams": teams}
            )
        return found[0]

    def create_one(self, given: dict[str, Any]) -> Plan:
        team = _team(self, given.get("team"), Right.SERVICES_WRITE)
        return services.save_plan(
            actor=self.actor,
            team=team,
            name=given["name"],
            body=given["body"],
            reason=given.get("reason", ""),
        )

    def put_one(self, instance: Plan | None, given: dict[str, Any], expected: int | None) -> Plan:
        name = self.request.query_params.get("team") or given.get("team")
        team = instance.team if instance and instance.pk else _team(self, name, Right.SERVICES_WRITE)
        return services.save_plan(
            actor=self.actor,
            team=team,
            name=self.kwargs["plan"],
            body=given["body"],
            expected_revision=expected if instance and instance.pk else None,
            reason=given.get("reason", ""),
        )

    def delete_one(self, instance: Plan, expected: int | None, reason: str) -> None:
        services.delete_plan(instance, actor=self.actor, reason=reason)

    @extend_schema(responses=OpenApiTypes.OBJECT)
    @action(detail=False, methods=["get"], url_path="schema", url_name="schema")
    def body_schema(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The JSON schema of a plan's body."""
        return Response(plans.plan_schema())


class TeamPolicies(Put, Listed, Read):
    """Release policies: what every release of a team's services must go through at least."""

    queryset = TeamPolicy.objects.select_related("team")
    serializer_class = serializers.TeamPolicySerializer
    inputs = {"update": serializers.TeamPolicyChangeSerializer}
    lookup_field = "team__name"
    lookup_url_kwarg = "team"
    lookup_value_converter = "str"
    sort = ("team__name",)

    def put_one(self, instance: TeamPolicy | None, given: dict[str, Any], expected: int | None) -> TeamPolicy:
        team = accounts.teams_where(self.actor, Right.READ).filter(name=self.kwargs["team"]).first()
        if team is None:
            raise Http404
        return services.set_team_policy(
            actor=self.actor,
            team=team,
            policy=given["policy"],
            reason=given.get("reason", ""),
            expected_revision=expected,
        )


def _may_read(actor: Actor, pk: int) -> bool:
    """With rights read anew: a stream must not outlive them."""
    return bool(Release.objects.for_actor(again(actor)).filter(pk=pk).exists())


def _moves_after(pk: int, after: str) -> list[ServerEvent]:
    release = Release.objects.get(pk=pk)
    moves = release.moves.filter(pk__gt=int(after)) if after.isdigit() else release.moves.all()
    return [
        ServerEvent(
            id=str(move.pk),
            name="move",
            data=serializers.MoveSerializer(move).data,
            last=move.after != "" and MOVES.is_final(ReleaseState(move.after)),
        )
        for move in moves
    ]


def _team(view: Endpoint, name: str | None, right: Right) -> Team:
    """The team of that name; without one the only team in which the actor has the right."""
    mine = accounts.teams_where(view.actor, right)
    if name is None:
        found = list(mine.order_by("name")[:20])
        if not found:
            require(view.actor, right)
        if len(found) != 1:
            named = ", ".join(team.name for team in found)
            raise Invalid(fields={"team": [_("Say which team will own it: %(named)s.") % {"named": named}]})
        return found[0]
    return accounts.team_named(view.actor, name)


def _model(view: Endpoint, name: str) -> Model:
    model = Model.objects.for_actor(view.actor).filter(name=name).first()
    if model is None:
        raise Invalid(fields={"model": [_("There is no such model, or none that you may see.")]})
    return model


def _version(view: Endpoint, model: Model, name: str) -> Version:
    try:
        return registry.resolve(view.actor, f"{model.name}:{name}")
    except Missing as missing:
        raise Invalid(fields={"version": [str(missing)]}) from None


def _cluster(view: Endpoint, name: str) -> Cluster:
    cluster = Cluster.objects.for_actor(view.actor).filter(name=name).first()
    if cluster is None:
        raise Invalid(fields={"cluster": [_("There is no such cluster, or none that you may see.")]})
    return cluster


def _image(view: Endpoint, name: str | None) -> RuntimeImage | None:
    if not name:
        return None
    try:
        return catalogue.image_named(view.actor, name)
    except Missing as missing:
        raise Invalid(fields={"image": [str(missing)]}) from None
