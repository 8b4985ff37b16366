from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.functional import cached_property
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from clusters import selectors
from clusters.api import capacity as capacity_documents
from clusters.api import drains, serializers
from clusters.api.log_lines import LINES, lines_of
from clusters.api.node_events import EVENT_PARAMETERS, EVENT_SCHEMA, EventsSerializer, page_of
from clusters.backends.kubernetes.rights import Feature
from clusters.capacities import capacity
from clusters.filters import ClusterFilter, DeploymentFilter, NodeFilter
from clusters.kept_history import busy_history
from clusters.models import Cluster, Deployment, Node, Worker
from clusters.node_events import events_of
from clusters.services.cluster_removal import remove_cluster
from clusters.services.clusters import change_cluster, check_cluster, move_cluster, register_cluster
from clusters.services.deployments import take_back_scale
from clusters.services.drains import drain_node, preview_drain
from clusters.services.grants import granted
from clusters.services.logs import worker_log
from clusters.services.node_agents import issue_node_token, remove_node_agent
from clusters.services.nodes import cordon_node, uncordon_node
from common.api.rows import RequiredReasonSerializer
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
    WhyRemoved,
)


class Clusters(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Places that run workers: those of your teams, and those that all teams share."""

    queryset = Cluster.objects.select_related("team")
    serializer_class = serializers.ClusterSerializer
    lookup_field = "name"
    lookup_url_kwarg = "cluster"
    lookup_value_converter = "str"
    sort = ("name", "-created_at")
    filterset_class = ClusterFilter
    why = WhyRemoved
    inputs = {
        "create": serializers.NewClusterSerializer,
        "partial_update": serializers.ClusterChangeSerializer,
        "move": serializers.ClusterMoveSerializer,
    }
    outputs = {"busy": serializers.BusySerializer, "capacity": capacity_documents.ClusterCapacitySerializer}
    parameters = {"busy": ("since",), "manifest": ("namespace", "features")}
    needs: ClassVar = dict.fromkeys(
        ("create", "check", "destroy", "partial_update", "move"), Right.FLEET_OPERATE
    )

    def create_one(self, given: dict[str, Any]) -> Cluster:
        """Its kubeconfig is stored sealed; it is checked at once, which takes seconds: see `checks`."""
        name = given.pop("team", None)
        team = team_named(self.actor, name) if name else None
        return register_cluster(actor=self.actor, team=team, **given)

    def delete_one(self, instance: Cluster, expected: int | None, reason: str) -> None:
        remove_cluster(actor=self.actor, cluster=instance, expected=expected, reason=reason)

    @extend_schema(responses={202: serializers.ClusterSerializer})
    @action(detail=True, methods=["post"])
    def check(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Check it anew: `state` is `checking` until `checks` has what was found."""
        return self.answer(check_cluster(actor=self.actor, cluster=self.get_object()), status=202)

    @extend_schema(
        parameters=[
            OpenApiParameter("namespace", OpenApiTypes.STR, description="Of the workers; default slipway."),
            OpenApiParameter(
                "features",
                OpenApiTypes.STR,
                description=f"Comma-separated: {', '.join(Feature)}; default: all.",
            ),
        ],
        responses={(200, "application/yaml"): OpenApiTypes.STR},
    )
    @action(detail=False)
    def manifest(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        """The least RBAC that a Kubernetes cluster must grant for these features: YAML for kubectl apply."""
        asked = request.query_params
        features = asked["features"].split(",") if "features" in asked else None
        wanted = None if features is None else [one.strip() for one in features if one.strip()]
        text = granted(namespace=asked.get("namespace", "slipway"), features=wanted)
        return HttpResponse(text, content_type="application/yaml")

    @extend_schema(responses={202: serializers.ClusterSerializer})
    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Remove it: refused (409) while anything runs there or goes there, which the answer names.

        `state` is `removing` until it is gone, a moment later; its secrets go with it.
        """
        cluster = self.get_object()
        super().destroy(request, *args, **kwargs)
        cluster.refresh_from_db()
        return self.answer(cluster, status=202)

    def change_one(self, instance: Cluster, given: dict[str, Any], expected: int | None) -> Cluster:
        return change_cluster(actor=self.actor, cluster=instance, expected=expected, **given)

    @extend_schema(responses=serializers.ClusterSerializer)
    @action(detail=True, methods=["post"])
    def move(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give a cluster that runs on a host itself to another host: workers and gateway start there.

        Refused (409) while its own host lives and has deployments: two sets of workers would serve.
        """
        return self.answer(move_cluster(actor=self.actor, cluster=self.get_object(), **self.given()))

    @extend_schema(responses=capacity_documents.ClusterCapacitySerializer)
    @action(detail=True)
    def capacity(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Capacity by GPU type: free, used and fragmented; and the pods that wait for a machine."""
        return Response(self.get_serializer(capacity(self.get_object())).data)

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "since", OpenApiTypes.DATETIME, description="Start of the history; default: an hour ago."
            )
        ]
    )
    @action(detail=True)
    def busy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Busy rates of a cluster and its nodes, now and since a time of the last 30 days."""
        cluster = self.get_object()
        since = _moment(request.query_params.get("since"))
        fleet = selectors.fleet(self.actor)
        found = next(one for one in fleet.clusters if one.row.pk == cluster.pk)
        shown = {
            "live": fleet.is_live,
            "now": found.load,
            "nodes": [{"id": one.row.pk, "name": one.row.name, "load": one.load} for one in found.nodes],
            "history": busy_history(cluster, [one.row.pk for one in found.nodes], since=since),
        }
        return Response(self.get_serializer(shown).data)


@extend_schema(parameters=[OpenApiParameter("cluster", OpenApiTypes.STR, OpenApiParameter.PATH)])
class Nodes(ListEndpoint, RetrieveEndpoint):
    """The machines of a cluster, as it last saw them."""

    queryset = Node.objects.select_related("cluster__team").prefetch_related("gpus")
    serializer_class = serializers.NodeSerializer
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("name", "-created_at")
    filterset_class = NodeFilter
    inputs = {
        "cordon": RequiredReasonSerializer,
        "uncordon": RequiredReasonSerializer,
        "drain": drains.NewDrainSerializer,
        "preview_drain": drains.DrainOptionsSerializer,
        "agent_token": serializers.NewAgentTokenSerializer,
        "remove_agent": RequiredReasonSerializer,
    }
    outputs = {
        "events": EventsSerializer,
        "drain": drains.DrainSerializer,
        "preview_drain": drains.DrainPreviewSerializer,
        "agent_token": serializers.AgentTokenSerializer,
    }
    secret_answers = frozenset({"agent_token"})
    parameters = {"events": EVENT_PARAMETERS}
    needs: ClassVar = dict.fromkeys(
        ("cordon", "uncordon", "preview_drain", "drain", "agent_token", "remove_agent"), Right.FLEET_OPERATE
    )

    @cached_property
    def cluster(self) -> Cluster:
        return get_object_or_404(Cluster.objects.for_actor(self.actor), name=self.kwargs["cluster"])

    def visible(self, rows: QuerySet[Node]) -> QuerySet[Node]:
        return rows.filter(cluster=self.cluster)

    @extend_schema(parameters=EVENT_SCHEMA, responses=EventsSerializer)
    @action(detail=True)
    def events(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Events of the machine and of Slipway's pods on it (of the last hour), the latest first."""
        # Not `get_object`: the filters are those of events, not of machines.
        node: Node = get_object_or_404(self.get_queryset(), pk=self.kwargs["id"])
        found = events_of(node, node.workers.values_list("name", flat=True))
        return Response(self.get_serializer(page_of(found, request)).data)

    @extend_schema(responses={202: serializers.NodeSerializer})
    @action(detail=True, methods=["post"])
    def cordon(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cordon: no new worker is placed on the machine; those that run go on.

        `operation` is `cordon` until it is done. A machine has one operation at a time (409).
        """
        return self._ordered(cordon_node)

    @extend_schema(responses={202: serializers.NodeSerializer})
    @action(detail=True, methods=["post"])
    def uncordon(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Uncordon: new workers may be placed on the machine again."""
        return self._ordered(uncordon_node)

    @extend_schema(responses={202: drains.DrainSerializer})
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Drain: cordon it and evict its pods, as their disruption budgets allow.

        Pods that would be lost stop it unless the options allow that. The machine stays cordoned.
        """
        given = self.given()
        reason, options = given.get("reason", ""), drains.options_of(given)
        row = drain_node(actor=self.actor, node=self.get_object(), reason=reason, options=options)
        return self.answer(row, status=202)

    @extend_schema(responses=drains.DrainPreviewSerializer)
    @action(detail=True, methods=["post"], url_path="drain-preview")
    def preview_drain(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Preview a drain: the pods it would evict, and what stops or blocks it; nothing changes."""
        options = drains.options_of(self.given())
        found = preview_drain(actor=self.actor, node=self.get_object(), options=options)
        return Response(self.get_serializer(found).data)

    @extend_schema(responses={201: serializers.AgentTokenSerializer})
    @action(detail=True, methods=["post"], url_path="agent-token")
    def agent_token(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A token by which the agent of this machine reports it, and nothing else; the former one ends."""
        given, node = self.given(), self.get_object()
        issued = issue_node_token(
            actor=self.actor,
            cluster=node.cluster,
            node_uid=node.uid,
            node_name=node.name,
            lives=timedelta(days=given["days"]),
            reason=given.get("reason", ""),
        )
        shown = issued.token
        # The one answer that holds it; the row keeps only a hash.
        shown.token = issued.text  # type: ignore[attr-defined]
        return self.answer(shown, status=201)

    @extend_schema(responses=serializers.NodeSerializer)
    @action(detail=True, methods=["post"], url_path="remove-agent")
    def remove_agent(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The machine has no agent any more: its token ends, and nobody misses its reports."""
        reason = self.given().get("reason", "")
        return self.answer(remove_node_agent(actor=self.actor, node=self.get_object(), reason=reason))

    def _ordered(self, order: Callable[..., Node]) -> Response:
        reason = self.given().get("reason", "")
        return self.answer(order(actor=self.actor, node=self.get_object(), reason=reason), status=202)


class Deployments(ListEndpoint, RetrieveEndpoint):
    """Workers that serve one version for one service: how many there should be, and how they are."""

    queryset = Deployment.objects.select_related("cluster", "team", "image").prefetch_related("workers__node")
    serializer_class = serializers.DeploymentSerializer
    lookup_field = "name"
    lookup_url_kwarg = "deployment"
    lookup_value_converter = "str"
    sort = ("-created_at", "name")
    filterset_class = DeploymentFilter
    inputs: ClassVar = {"take_back": RequiredReasonSerializer}
    needs: ClassVar = {"take_back": Right.FLEET_OPERATE}

    @extend_schema(responses={202: serializers.DeploymentSerializer})
    @action(detail=True, methods=["post"], url_path="take-back")
    def take_back(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Have as many workers again as Slipway wishes: somebody has set another number past it.

        An autoscaler that is still there sets its own number again.
        """
        reason = self.given()["reason"]
        return self.answer(take_back_scale(self.get_object(), actor=self.actor, reason=reason), status=202)


class WorkerLogs(Endpoint):
    queryset = Worker.objects.all()
    serializer_class = serializers.WorkerLogSerializer
    pagination_class = None
    parameters = {"show": ("lines",)}

    @extend_schema(parameters=[OpenApiParameter("worker", OpenApiTypes.STR, OpenApiParameter.PATH), LINES])
    def show(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Recent log of a worker."""
        name = self.kwargs["worker"]
        log = worker_log(actor=self.actor, worker=name, lines=lines_of(request))
        return Response(self.get_serializer({"worker": name, "log": log}).data)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = parse_datetime(text.replace(" ", "+"))  # An unescaped + of the offset arrives as a blank.
    except ValueError:
        moment = None
    if moment is None:
        raise ValidationError({"since": [_("Give a time such as 2026-11-20T08:30:00Z.")]})
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)
