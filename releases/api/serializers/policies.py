"""What a team and a service demand of releases, over REST."""

from typing import Any

from rest_framework import serializers

from common.api.examples import example
from common.audit import MAX_REASON
from releases.api import examples
from releases.models import TeamPolicy
from releases.policy import APPROVALS, ROLES


class PolicySerializer(serializers.Serializer[Any]):
    """What a release must go through at least."""

    approval = serializers.ChoiceField(
        choices=APPROVALS,
        required=False,
        help_text="another_person: not the one who started the release.",
    )
    role = serializers.ChoiceField(choices=ROLES, required=False, help_text="The approver's, in the team.")
    approvers = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="People one of whom must approve; null: whoever has the right.",
    )
    percent_before_approval = serializers.IntegerField(
        min_value=1, max_value=99, required=False, help_text="The candidate's traffic before it, at most."
    )
    judge = serializers.BooleanField(required=False, help_text="The candidate must be judged.")
    plans = serializers.ListField(
        child=serializers.CharField(max_length=150),
        max_length=50,
        required=False,
        allow_null=True,
        help_text="Names of the plans that are allowed; null: any.",
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
    policy = PolicySerializer(help_text="The whole of it: what is left out demands nothing.")
    reason = serializers.CharField(
        max_length=MAX_REASON,
        required=False,
        allow_blank=True,
        help_text="Needed when it demands less than before.",
    )
