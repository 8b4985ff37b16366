from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.utils.functional import cached_property
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from capacity import selectors, services
from capacity.api import (
    fragment_serializers,
    group_serializers,
    layout_serializers,
    policy_serializers,
    queue_serializers,
    serializers,
)
from capacity.filters import PlanFilter, PolicyFilter, PoolFilter, SwitchTimeFilter
from capacity.models import (
    CapacityPlan,
    CapacityStop,
    CardLayout,
    GroupSwitch,
    Pool,
    PoolMember,
    ScalingPolicy,
    ServiceGroups,
    ServiceQueue,
    SwitchTime,
)
from capacity.needs import needs_of
from capacity.replays import replay_policy
from clusters.selectors import cluster
from common.api.rows import ReasonSerializer
from common.api.views import (
    CreateEndpoint,
    DestroyEndpoint,
    Endpoint,
    ListEndpoint,
    PutEndpoint,
    RetrieveEndpoint,
    UpdateEndpoint,
)

LATEST_SWITCHES = Prefetch("switches", GroupSwitch.objects.all()[:10], to_attr="latest_switches")


class CapacityPools(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Pools of workers that services of a cluster share."""

    queryset = Pool.objects.select_related("team", "cluster").prefetch_related("memberships")
    serializer_class = serializers.PoolSerializer
    filterset_class = PoolFilter
    lookup_url_kwarg = "pool"
    lookup_value_converter = "int"
    sort = ("name", "-created_at")
    inputs: ClassVar = {
        "create": serializers.NewPoolSerializer,
        "partial_update": serializers.PoolChange,
        "defragment": fragment_serializers.DefragmentWish,
        "layout": layout_serializers.CardLayoutWish,
    }
    needs: ClassVar = dict.fromkeys(
        ("create", "partial_update", "destroy", "defragment", "layout"), Right.CAPACITY_WRITE
    )
    parameters: ClassVar = {"measured": ("days",)}

    def create_one(self, given: dict[str, Any]) -> Pool:
        team, place = team_named(self.actor, given.pop("team")), cluster(given.pop("cluster"))
        members = given.pop("members", None)
        with transaction.atomic():
            made = services.create_pool(actor=self.actor, team=team, cluster=place, **given)
            return self._with_members(made, members)

    def change_one(self, instance: Pool, given: dict[str, Any], expected: int | None) -> Pool:
        members = given.pop("members", None)
        with transaction.atomic():
            changed = services.change_pool(instance, actor=self.actor, expected=expected, **given)
            return self._with_members(changed, members)

    def _with_members(self, pool: Pool, members: Sequence[Mapping[str, Any]] | None) -> Pool:
        if members is not None:
            services.set_members(pool, actor=self.actor, members=members)
            vars(pool).pop("_prefetched_objects_cache", None)
        return pool

    def delete_one(self, instance: Pool, expected: int | None, reason: str) -> None:
        services.remove_pool(instance, actor=self.actor, reason=reason)

    @extend_schema(responses={200: fragment_serializers.FragmentsSerializer})
    @action(detail=True, methods=["get"])
    def fragments(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Jobs that could start now, by their cards and by rack, and over the last day."""
        pool = self.get_object()
        racks, samples = selectors.fragments_now(pool), selectors.card_samples(pool)
        return Response(fragment_serializers.FragmentsSerializer({"racks": racks, "samples": samples}).data)

    @extend_schema(responses={200: layout_serializers.PoolCardsSerializer})
    @action(detail=True, methods=["get"])
    def cards(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cards of the pool's machines: who holds each, and how it is divided."""
        found = {"cards": selectors.cards_of(self.get_object())}
        return Response(layout_serializers.PoolCardsSerializer(found).data)

    @extend_schema(
        parameters=[layout_serializers.MeasuredDays],
        responses={200: layout_serializers.MeasuredNeedsSerializer},
    )
    @action(detail=True, methods=["get"], url_path="needs")
    def measured(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """GPU memory and Busy of services, as measured: what a layout takes where figures are left out."""
        asked = layout_serializers.MeasuredDays(data=request.query_params)
        asked.is_valid(raise_exception=True)
        found = {"needs": needs_of(self.get_object(), self.actor, **asked.validated_data)}
        return Response(layout_serializers.MeasuredNeedsSerializer(found).data)

    @extend_schema(responses={200: layout_serializers.CardLayoutSerializer})
    @action(detail=True, methods=["post"])
    def layout(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Divide a card by MIG or MPS for what is to run on it, or make it whole; dry runs answer how."""
        row = services.set_layout(self.get_object(), actor=self.actor, **self.given())
        return Response(layout_serializers.CardLayoutSerializer(row).data)

    @extend_schema(responses={200: serializers.CapacityPlanSerializer})
    @action(detail=True, methods=["post"])
    def defragment(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Propose moves that free machines; as a dry run only answer them, with what they cost and gain."""
        plan = services.propose_defragmentation(self.get_object(), actor=self.actor, **self.given())
        return Response(serializers.CapacityPlanSerializer(plan).data)


class PoolMembers(PutEndpoint, DestroyEndpoint):
    """Services of a pool with their shares."""

    queryset = PoolMember.objects.select_related("pool__team")
    serializer_class = serializers.PoolMemberSerializer
    inputs: ClassVar = {"update": serializers.PoolMemberWish}
    lookup_field = "service"
    lookup_value_converter = "slug"
    needs: ClassVar = dict.fromkeys(("update", "destroy"), Right.CAPACITY_WRITE)

    def visible(self, rows: QuerySet[PoolMember]) -> QuerySet[PoolMember]:
        return rows.filter(pool=self.pool)

    @cached_property
    def pool(self) -> Pool:
        return get_object_or_404(Pool.objects.for_actor(self.actor), pk=self.kwargs["pool"])

    def put_one(self, instance: PoolMember | None, given: dict[str, Any], expected: int | None) -> PoolMember:
        return services.set_membership(self.pool, actor=self.actor, service=self.kwargs["service"], **given)

    def delete_one(self, instance: PoolMember, expected: int | None, reason: str) -> None:
        services.remove_membership(instance, actor=self.actor, reason=reason)


class ByService(ListEndpoint, RetrieveEndpoint, PutEndpoint, DestroyEndpoint):
    """Objects of which a member of a pool has one, by the name of its service."""

    lookup_field = "member__service"
    lookup_url_kwarg = "service"
    lookup_value_converter = "slug"
    sort = ("member__service",)
    needs: ClassVar = dict.fromkeys(("update", "destroy"), Right.CAPACITY_WRITE)


class CapacityGroups(ByService):
    """Online and offline groups of services' workers: requests first, jobs with the rest."""

    queryset = ServiceGroups.objects.select_related("member__pool__team").prefetch_related(LATEST_SWITCHES)
    serializer_class = group_serializers.ServiceGroupsSerializer
    inputs: ClassVar = {"update": group_serializers.ServiceGroupsWish}

    def put_one(
        self, instance: ServiceGroups | None, given: dict[str, Any], expected: int | None
    ) -> ServiceGroups:
        member = selectors.member_of(self.actor, self.kwargs["service"])
        return services.set_groups(member, actor=self.actor, **given)

    def delete_one(self, instance: ServiceGroups, expected: int | None, reason: str) -> None:
        services.remove_groups(instance, actor=self.actor, reason=reason)


class CapacityQueues(ByService):
    """Queues that workers of services work off: as many workers as the work needs, and none without."""

    queryset = ServiceQueue.objects.select_related("member__pool__team")
    serializer_class = queue_serializers.ServiceQueueSerializer
    inputs: ClassVar = {"update": queue_serializers.ServiceQueueWish}

    def put_one(
        self, instance: ServiceQueue | None, given: dict[str, Any], expected: int | None
    ) -> ServiceQueue:
        member = selectors.member_of(self.actor, self.kwargs["service"])
        return services.set_queue(member, actor=self.actor, **given)

    def delete_one(self, instance: ServiceQueue, expected: int | None, reason: str) -> None:
        services.remove_queue(instance, actor=self.actor, reason=reason)


class CapacityPolicies(ListEndpoint, CreateEndpoint, RetrieveEndpoint):
    """Policies of scaling: versions of what teams set of the law of a service."""

    queryset = ScalingPolicy.objects.with_force().select_related("member__pool__team")
    serializer_class = policy_serializers.ScalingPolicySerializer
    filterset_class = PolicyFilter
    lookup_url_kwarg = "policy"
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = {
        "create": policy_serializers.NewScalingPolicySerializer,
        "replay": policy_serializers.PolicyReplayWish,
    }
    needs: ClassVar = {"create": Right.CAPACITY_WRITE, "replay": Right.READ}

    def create_one(self, given: dict[str, Any]) -> ScalingPolicy:
        member = selectors.member_of(self.actor, given.pop("service"))
        return services.set_policy(member, actor=self.actor, **given)

    @extend_schema(responses={200: policy_serializers.PolicyReplaySerializer})
    @action(detail=False, methods=["post"])
    def replay(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Run a policy over the recorded load, or over given points, beside the one in force."""
        given = self.given()
        member = selectors.member_of(self.actor, given.pop("service"))
        return Response(policy_serializers.PolicyReplaySerializer(replay_policy(member, **given)).data)


class SwitchTimes(ListEndpoint):
    """Times of a model's workers on a kind of machine: to drain, to load, and until they are ready."""

    queryset = SwitchTime.objects.select_related("model")
    serializer_class = policy_serializers.SwitchTimeSerializer
    filterset_class = SwitchTimeFilter
    sort = ("model__name", "kind")


class CardLayouts(ListEndpoint, RetrieveEndpoint):
    """Changes of cards into MIG instances, and back."""

    queryset = CardLayout.objects.select_related("pool__team")
    serializer_class = layout_serializers.CardLayoutSerializer
    lookup_url_kwarg = "layout"
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = {"undo": ReasonSerializer}
    needs: ClassVar = {"undo": Right.CAPACITY_APPLY}

    @extend_schema(responses={200: layout_serializers.CardLayoutSerializer})
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give the card the layout that it had before; answers the change that does."""
        reason = self.given().get("reason", "")
        return self.answer(services.undo_layout(self.get_object(), actor=self.actor, reason=reason))


PLAN_SHOWN = extend_schema(responses={200: serializers.CapacityPlanSerializer})


class CapacityPlans(ListEndpoint, RetrieveEndpoint):
    """Plans that move workers between the services of a pool."""

    queryset = CapacityPlan.objects.select_related("pool__team")
    serializer_class = serializers.CapacityPlanSerializer
    filterset_class = PlanFilter
    lookup_url_kwarg = "plan"
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = dict.fromkeys(("approve", "apply", "reject", "undo"), ReasonSerializer)
    needs: ClassVar = dict.fromkeys(("approve", "apply", "reject", "undo"), Right.CAPACITY_APPLY)

    @PLAN_SHOWN
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Begin a proposed plan."""
        return self._done(services.apply_plan)

    @PLAN_SHOWN
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Approve a proposed plan, which begins it."""
        return self._done(services.apply_plan)

    @PLAN_SHOWN
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Reject a proposed plan: workers stay as they are."""
        return self._done(services.reject_plan)

    @PLAN_SHOWN
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Give every service what it had before the plan; answers the plan that does."""
        return self._done(services.undo_plan)

    def _done(self, deed: Any) -> Response:
        reason = self.given().get("reason", "")
        return self.answer(deed(self.get_object(), actor=self.actor, reason=reason))


class CapacityStopSwitch(Endpoint):
    """The kill switch of capacity."""

    queryset = CapacityStop.objects.none()
    serializer_class = serializers.CapacityStopSerializer
    inputs: ClassVar = {"create": serializers.StopWish}
    needs: ClassVar = {"create": Right.CAPACITY_APPLY}
    pagination_class = None

    def visible(self, rows: QuerySet[CapacityStop]) -> QuerySet[CapacityStop]:
        return rows

    @extend_schema(operation_id="capacity_stop", responses={200: serializers.CapacityStopSerializer})
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Get the kill switch."""
        return Response(self.get_serializer(CapacityStop.now()).data)

    @extend_schema(responses={200: serializers.CapacityStopSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Throw the kill switch, or let plans begin again."""
        given = self.given()
        deed = services.stop if given["is_on"] else services.resume
        row = deed(actor=self.actor, reason=given.get("reason", ""))
        return Response(self.get_serializer(row).data)
