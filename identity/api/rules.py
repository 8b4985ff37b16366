"""Group rules, and what they would change."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors as accounts
from accounts.api.permissions import InstallationRight
from accounts.models import Team
from accounts.services.rights import require_everywhere
from accounts.states import Right, Role
from common.actor import Actor
from common.api.examples import example
from common.api.views import CreateEndpoint, DestroyEndpoint, ListEndpoint, RetrieveEndpoint, UpdateEndpoint
from common.audit import MAX_REASON
from identity import selectors
from identity.api import examples
from identity.group_rules import GroupPattern
from identity.models import GroupRule
from identity.patterns import MAX_PATTERN
from identity.services import rules

PATTERN = "Name of a group as the identity provider sends it; * stands for any characters."
TEAM = "Null: members administer the installation, and the role is empty."


@example(examples.GROUP_RULE)
class GroupRuleSerializer(serializers.ModelSerializer[GroupRule]):
    team = serializers.CharField(source="team.name", allow_null=True, default=None, help_text=TEAM)
    role = serializers.CharField(allow_blank=True)

    class Meta:
        model = GroupRule
        fields = ("id", "pattern", "team", "role", "created_at", "created_by")


@example(examples.NEW_GROUP_RULE)
class NewGroupRuleSerializer(serializers.Serializer[Any]):
    pattern = serializers.CharField(max_length=MAX_PATTERN, help_text=PATTERN)
    team = serializers.CharField(max_length=63, required=False, allow_null=True, help_text=TEAM)
    role = serializers.ChoiceField(choices=Role.choices, required=False, allow_blank=True)
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example(examples.GROUP_RULE_CHANGE)
class GroupRuleChangeSerializer(NewGroupRuleSerializer):
    pass


class TriedRuleSerializer(serializers.Serializer[Any]):
    pattern = serializers.CharField(max_length=MAX_PATTERN, help_text=PATTERN)
    team = serializers.CharField(max_length=63, required=False, allow_null=True, help_text=TEAM)
    role = serializers.ChoiceField(choices=Role.choices, required=False, allow_blank=True)


@example(examples.DRY_RUN_REQUEST)
class DryRunRequestSerializer(serializers.Serializer[Any]):
    rules = TriedRuleSerializer(
        many=True, required=False, help_text="The rules to try; default: those in force."
    )
    groups = serializers.ListField(
        child=serializers.CharField(max_length=255),
        required=False,
        max_length=2_000,
        help_text="Groups of somebody who has nothing yet.",
    )


class RoleShiftSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(allow_blank=True, help_text="Empty: administrator of the installation.")
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)


class PersonShiftSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    changes = RoleShiftSerializer(many=True)


@example(examples.DRY_RUN)
class DryRunSerializer(serializers.Serializer[Any]):
    known = serializers.IntegerField(help_text="People whose groups are known, by their last sign-in.")
    people = PersonShiftSerializer(many=True, help_text="Those for whom something would change.")
    given = RoleShiftSerializer(many=True, help_text="What the `groups` would give.")


class GroupRules(ListEndpoint, CreateEndpoint, RetrieveEndpoint, UpdateEndpoint, DestroyEndpoint):
    """Rules by which groups of the identity provider give roles; for administrators of the installation."""

    queryset = GroupRule.objects.all()
    serializer_class = GroupRuleSerializer
    inputs: ClassVar = {
        "create": NewGroupRuleSerializer,
        "partial_update": GroupRuleChangeSerializer,
        "dry_run": DryRunRequestSerializer,
    }
    lookup_field = "id"
    lookup_value_converter = "int"
    sort = ("pattern", "-created_at")
    search_fields = ("pattern", "team__name")
    needs: ClassVar = dict.fromkeys(
        ("create", "partial_update", "destroy", "dry_run"), InstallationRight(Right.PEOPLE_ADMIN)
    )

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        require_everywhere(self.actor, Right.PEOPLE_ADMIN)

    def visible(self, rows: QuerySet[GroupRule]) -> QuerySet[GroupRule]:
        return selectors.rules(self.actor)

    def create_one(self, given: dict[str, Any]) -> GroupRule:
        return rules.create_rule(actor=self.actor, **_with_team(self.actor, given))

    def change_one(self, instance: GroupRule, given: dict[str, Any], expected: int | None) -> GroupRule:
        return rules.change_rule(
            actor=self.actor, rule=instance, expected=expected, **_with_team(self.actor, given)
        )

    def delete_one(self, instance: GroupRule, expected: int | None, reason: str) -> None:
        rules.delete_rule(actor=self.actor, rule=instance, expected=expected, reason=reason)

    @extend_schema(responses={200: DryRunSerializer})
    @action(detail=False, methods=["post"], url_path="dry-run")
    def dry_run(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Show what rules would change for people, and give to groups. Nothing is changed."""
        given = self.given()
        wanted = selectors.rules_in_force()
        if "rules" in given:
            wanted = [_tried(self.actor, one) for one in given["rules"]]
        found = selectors.dry_run(wanted)
        shown = {
            "known": found.known,
            "people": [{"username": one.user.username, "changes": changes} for one, changes in found.people],
            "given": selectors.tried(wanted, given.get("groups", ())),
        }
        return Response(DryRunSerializer(shown).data)


def _tried(actor: Actor, given: dict[str, Any]) -> GroupPattern:
    team: Team | None = _with_team(actor, dict(given)).get("team")
    return GroupPattern(
        given["pattern"], team.pk if team else None, given.get("role") or ("viewer" if team else "")
    )


def _with_team(actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """The team of that name in place of its name. Raises Invalid."""
    if given.get("team"):
        given["team"] = accounts.team_named(actor, given["team"])
    return given
