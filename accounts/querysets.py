from typing import ClassVar, Self, TypeVar

from django.db.models import Model, Q, QuerySet

from accounts.actors import grants_of, of_user
from accounts.models import User
from accounts.states import Right
from common.actor import Actor

Owned = TypeVar("Owned", bound=Model, covariant=True)


class TeamOwned(QuerySet[Owned]):
    """Rows that belong to a team: object rights are here and nowhere else.

    class VersionQuerySet(TeamOwned["Version"]):
        team_path = "model__team"

    class Version(models.Model):
        objects = VersionQuerySet.as_manager()
    """

    team_path: ClassVar[str] = "team"
    """From a row to its team."""

    def for_actor(self, actor: Actor, right: Right = Right.READ) -> Self:
        """The rows of the teams in which the actor has the right."""
        grants = grants_of(actor)
        if right in grants.everywhere:
            return self
        return self.filter(**{f"{self.team_path}__in": grants.team_ids(right)})

    def for_user(self, user: User, right: Right = Right.READ) -> Self:
        return self.for_actor(of_user(user), right)


class TeamOrShared(TeamOwned[Owned]):
    """Rows that belong to a team, or to the installation: those are for all to see and for administrators
    to change.
    """

    def for_actor(self, actor: Actor, right: Right = Right.READ) -> Self:
        grants = grants_of(actor)
        if right in grants.everywhere:
            return self
        own = Q(**{f"{self.team_path}__in": grants.team_ids(right)})
        if right == Right.READ and grants.may(right):
            own |= Q(**{f"{self.team_path}__isnull": True})
        return self.filter(own)
