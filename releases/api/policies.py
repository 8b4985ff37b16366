from typing import Any, ClassVar

from django.http import Http404

from accounts import selectors as accounts
from accounts.states import Right
from common.api.views import ListEndpoint, PutEndpoint, RetrieveEndpoint
from releases.api.serializers.policies import TeamPolicyChangeSerializer, TeamPolicySerializer
from releases.models import TeamPolicy
from releases.services.policy import set_team_policy


class TeamPolicies(PutEndpoint, ListEndpoint, RetrieveEndpoint):
    """Release policies: minimum requirements of the releases of a team's services."""

    queryset = TeamPolicy.objects.select_related("team")
    serializer_class = TeamPolicySerializer
    inputs = {"update": TeamPolicyChangeSerializer}
    lookup_field = "team__name"
    lookup_url_kwarg = "team"
    lookup_value_converter = "str"
    sort = ("team__name",)
    needs: ClassVar = {"update": Right.RELEASES_BYPASS}

    def put_one(self, instance: TeamPolicy | None, given: dict[str, Any], expected: int | None) -> TeamPolicy:
        team = accounts.teams_where(self.actor, Right.READ).filter(name=self.kwargs["team"]).first()
        if team is None:
            raise Http404
        return set_team_policy(
            actor=self.actor,
            team=team,
            policy=given["policy"],
            reason=given.get("reason", ""),
            expected_revision=expected,
        )
