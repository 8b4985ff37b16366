from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from accounts.states import RIGHTS, SERVICE_RIGHTS, Right, Role

ALL = frozenset(Right)


@dataclass(frozen=True, slots=True)
class Grants:
    """The rights of one actor, and the teams that they hold for."""

    everywhere: frozenset[Right] = frozenset()
    """Rights in every team and in what belongs to no team."""
    services: frozenset[str] = frozenset()
    """The only services over which there is more than `READ`; empty: all."""
    by_team: Mapping[int, frozenset[Right]] = field(default_factory=dict)

    @classmethod
    def of_roles(cls, roles: Mapping[int, str]) -> Self:
        """`roles` by team id."""
        return cls(by_team={team_id: RIGHTS[Role(role)] for team_id, role in roles.items()})

    def may(self, right: Right, team_id: int | None = None, *, service: str = "") -> bool:
        """Return whether the actor has the right in that team (None: in any), over that service if one is
        named.
        """
        if self.services and right != Right.READ and team_id is not None and service not in self.services:
            return False
        if right in self.everywhere:
            return True
        if team_id is None:
            return any(right in rights for rights in self.by_team.values())
        return right in self.by_team.get(team_id, frozenset())

    def rights_in(self, team_id: int) -> frozenset[Right]:
        return self.everywhere | self.by_team.get(team_id, frozenset())

    def team_ids(self, right: Right) -> frozenset[int]:
        """The teams that grant it by name; those of `everywhere` are not listed."""
        return frozenset(team_id for team_id, rights in self.by_team.items() if right in rights)

    def narrowed(
        self, scopes: frozenset[Right], *, team_id: int | None, services: frozenset[str] = frozenset()
    ) -> Self:
        """Return the grants that a token's scopes leave, in its one team and over its services if it has
        any.
        """
        if services:
            scopes &= SERVICE_RIGHTS
        if team_id is not None:
            return type(self)(by_team={team_id: self.rights_in(team_id) & scopes}, services=services)
        by_team = {team: rights & scopes for team, rights in self.by_team.items()}
        return type(self)(everywhere=self.everywhere & scopes, by_team=by_team, services=services)
