"""Approvals given in the place of people who are away, over REST."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from rest_framework import serializers

from accounts.models import User
from accounts.selectors import team_named
from accounts.states import Right
from common.api.examples import example
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint
from common.audit import MAX_REASON
from common.errors import Invalid
from releases.filters import DelegationFilter
from releases.models import ApprovalDelegation
from releases.services.delegation import delegate_approvals, end_delegation

NEW = {
    "team": "speech",
    "person": "bo",
    "delegate": "cy",
    "starts_at": "2026-12-23T17:00:00Z",
    "ends_at": "2027-01-04T08:00:00Z",
    "reason": "On holiday.",
}


@example({"id": 3, **NEW, "ended_at": None, "created_by": "bo", "created_at": "2026-12-20T09:00:00Z"})
class DelegationSerializer(serializers.ModelSerializer[ApprovalDelegation]):
    team = serializers.CharField(source="team.name")
    person = serializers.CharField(source="person.username", help_text="Who is away.")
    delegate = serializers.CharField(
        source="delegate.username", help_text="Who approves in the person's place."
    )

    class Meta:
        model = ApprovalDelegation
        fields = ("id", *NEW, "ended_at", "created_by", "created_at")


@example(NEW)
class NewDelegationSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(max_length=150)
    person = serializers.CharField(
        max_length=150, required=False, help_text="Who is away; default: you. An admin names others."
    )
    delegate = serializers.CharField(max_length=150)
    starts_at = serializers.DateTimeField(required=False, help_text="Default: now.")
    ends_at = serializers.DateTimeField(required=False, allow_null=True, help_text="null: until it is ended.")
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


class Delegations(ListEndpoint, CreateEndpoint, RetrieveEndpoint, DestroyEndpoint):
    """Approvals given in the place of people who are away."""

    queryset = ApprovalDelegation.objects.select_related("team", "person", "delegate")
    serializer_class = DelegationSerializer
    filterset_class = DelegationFilter
    lookup_value_converter = "int"
    sort = ("-created_at",)
    inputs: ClassVar = {"create": NewDelegationSerializer}
    needs: ClassVar = {"create": Right.RELEASES_APPROVE, "destroy": Right.RELEASES_APPROVE}

    def visible(self, rows: QuerySet[ApprovalDelegation]) -> QuerySet[ApprovalDelegation]:
        return rows.filter(team__in=ApprovalDelegation.objects.for_actor(self.actor).values("team"))

    def create_one(self, given: dict[str, Any]) -> ApprovalDelegation:
        given["team"] = team_named(self.actor, given["team"])
        for name in ("person", "delegate"):
            if name in given:
                given[name] = _person(given[name], name)
        return delegate_approvals(actor=self.actor, **given)

    def delete_one(self, instance: ApprovalDelegation, expected: int | None, reason: str) -> None:
        end_delegation(instance, actor=self.actor, reason=reason)


def _person(username: str, field: str) -> User:
    found = User.objects.filter(username=username).first()
    if found is None:
        raise Invalid(fields={field: [_("There is nobody named %(name)s.") % {"name": username}]})
    return found
