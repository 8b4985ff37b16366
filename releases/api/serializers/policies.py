"""What a team and a service demand of releases, over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import TeamPolicy
from releases.policy import APPROVALS, ROLES


class PolicySerializer(serializers.Serializer[Any]):
    """Minimum requirements of releases."""

    approval = serializers.ChoiceField(
        choices=APPROVALS,
        required=False,
        help_text="another_person: not the requester.",
    )
    role = serializers.ChoiceField(
        choices=ROLES, required=False, help_text="Role of the approver in the team."
    )
    people = serializers.IntegerField(
        min_value=1,
        max_value=10,
        required=False,
        help_text="Different people who must approve; default 1.",
    )
    approvers = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="Users one of whom must approve; null: anyone with the right.",
    )
    percent_before_approval = serializers.IntegerField(
        min_value=1,
        max_value=100,
        required=False,
        allow_null=True,
        help_text="Maximum weight of the candidate before the approval; null: as the service's plan, at "
        "least 50.",
    )
    judge = serializers.BooleanField(required=False, help_text="A judge step is required.")
    fresh_sign_in = serializers.BooleanField(
        required=False, help_text="Approvers must have just signed in; tokens cannot approve."
    )
    return_within_days = serializers.IntegerField(
        min_value=0,
        max_value=3650,
        required=False,
        allow_null=True,
        help_text="A version that served within so many days may return without canary and approval; null: "
        "every one that ever served.",
    )
    steps = serializers.ListField(
        child=serializers.CharField(max_length=50),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="Kinds of steps that the candidate must pass, such as evaluate; null: none.",
    )
    plans = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="Allowed plans; null: any.",
    )


@example(examples.TEAM_POLICY)
class TeamPolicySerializer(serializers.ModelSerializer[TeamPolicy]):
    team = serializers.CharField(source="team.name")
    policy = PolicySerializer(source="body")

    class Meta:
        model = TeamPolicy
        fields = ("team", "policy", "changed_by", "changed_at")


@example(examples.TEAM_POLICY_CHANGE)
class TeamPolicyChangeSerializer(serializers.Serializer[Any]):
    policy = PolicySerializer(help_text="The complete policy; omitted fields demand nothing.")
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Required when it demands less than before.",
    )
