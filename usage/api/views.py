from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.selectors import team_named
from accounts.states import Right
from common.api.views import CreateEndpoint, DestroyEndpoint, Endpoint, ListEndpoint, RetrieveEndpoint
from common.errors import Invalid
from usage.api import serializers
from usage.filters import BudgetFilter
from usage.models import Budget, UsageDay
from usage.selectors import UsageQuery, currency, usage_report, usual_span
from usage.services import create_budget, delete_budget
from usage.states import UsageGroup

FILTERS = ("team", "service", "version", "key")


class UsageReport(Endpoint):
    """Usage of clients: requests, tokens, GPU hours and their cost."""

    queryset = UsageDay.objects.all()
    serializer_class = serializers.UsageReportSerializer
    pagination_class = None
    parameters: ClassVar = {"report": ("since", "until", "by", *FILTERS)}

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "since", OpenApiTypes.DATE, description="First day (UTC); default: 29 days ago."
            ),
            OpenApiParameter("until", OpenApiTypes.DATE, description="Last day; default: today."),
            OpenApiParameter(
                "by",
                OpenApiTypes.STR,
                description="Groups, with commas: day, team, service, version, key. Default: service.",
            ),
            *(OpenApiParameter(name, OpenApiTypes.STR, description=f"Only this {name}.") for name in FILTERS),
        ],
    )
    def report(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Sums by day, team, service, version or client's key."""
        given = request.query_params
        since, until = usual_span()
        groups = [one.strip() for one in given.get("by", UsageGroup.SERVICE).split(",")]
        if unknown := sorted(set(groups) - set(UsageGroup.values)):
            known = ", ".join(UsageGroup.values)
            words = _("Unknown: %(unknown)s. Known: %(known)s.") % {"unknown": unknown[0], "known": known}
            raise Invalid(fields={"by": [words]})
        query = UsageQuery(
            since=_day(given.get("since"), since, "since"),
            until=_day(given.get("until"), until, "until"),
            by=groups,
            **{name: given.get(name, "") for name in FILTERS},
        )
        told = {"since": query.since, "until": query.until, "currency": currency()}
        return Response({**told, "rows": usage_report(self.actor, query)})


def _day(text: str | None, usual: Any, name: str) -> Any:
    if not text:
        return usual
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise Invalid(fields={name: [_("Give a day such as 2026-11-20.")]})
    return day


class Budgets(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Budgets of teams for a calendar month; alerts fire when one is nearly spent, and when it is."""

    queryset = Budget.objects.all()
    serializer_class = serializers.BudgetSerializer
    filterset_class = BudgetFilter
    inputs = {"create": serializers.NewBudgetSerializer}
    lookup_url_kwarg = "id"
    lookup_value_converter = "int"
    sort = ("name", "-created_at")
    needs: ClassVar = dict.fromkeys(("create", "destroy"), Right.SERVICES_WRITE)

    def visible(self, rows: QuerySet[Budget]) -> QuerySet[Budget]:
        return super().visible(rows).select_related("team")

    def create_one(self, given: dict[str, Any]) -> Budget:
        team = team_named(self.actor, given.pop("team"))
        return create_budget(actor=self.actor, team=team, **given)

    def delete_one(self, instance: Budget, expected: int | None, reason: str) -> None:
        delete_budget(instance, actor=self.actor, reason=reason)
