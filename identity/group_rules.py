"""What group rules give, and what a change of them would change: pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from accounts.services.provisioned import ProvisionedRoles
from accounts.states import Role
from identity.patterns import matches

STRONGEST_FIRST = (Role.ADMIN, Role.APPROVER, Role.OPERATOR, Role.DEVELOPER, Role.VIEWER)
"""Of the roles that several rules give in one team, a person has the first of these."""
MAX_GROUPS = 2_000


class GroupPattern(NamedTuple):
    pattern: str
    team_id: int | None
    """None: makes administrators of the installation."""
    role: str


def given_by(rules: Iterable[GroupPattern], groups: Collection[str]) -> ProvisionedRoles:
    """Return the roles that the rules give to a member of these groups."""
    roles: dict[int, Role] = {}
    administrator = False
    for rule in rules:
        if not any(matches(rule.pattern, group) for group in groups):
            continue
        if rule.team_id is None:
            administrator = True
        else:
            role = Role(rule.role)
            present = roles.get(rule.team_id, role)
            roles[rule.team_id] = min(present, role, key=STRONGEST_FIRST.index)
    return ProvisionedRoles(roles, administrator)


@dataclass(frozen=True, slots=True)
class HeldMemberships:
    """Memberships that a person has now."""

    by_rule: Mapping[int, Role]
    by_hand: Mapping[int, Role]
    administrator: bool = False
    administrator_by_rule: bool = False


class MembershipChange(NamedTuple):
    team_id: int | None
    """None: administrator of the installation."""
    before: Role | None
    after: Role | None


def changes(held: HeldMemberships, given: ProvisionedRoles) -> Sequence[MembershipChange]:
    """Return what applying the roles would change. Teams with a role given by hand are left out."""
    found = []
    for team_id in sorted({*held.by_rule, *given.roles} - set(held.by_hand)):
        before, after = held.by_rule.get(team_id), given.roles.get(team_id)
        if before != after:
            found.append(MembershipChange(team_id, before, after))
    if given.administrator and not held.administrator:
        found.append(MembershipChange(None, None, Role.ADMIN))
    elif held.administrator_by_rule and not given.administrator:
        found.append(MembershipChange(None, Role.ADMIN, None))
    return found


def groups_in(claims: Mapping[str, Any], claim: str) -> list[str] | None:
    """The groups that the claims name. None: the provider has left a list out for being too long (Microsoft
    Entra, "groups overage"), so that nothing can be said of them.

    `claim`: its name, or a path with dots into objects where no claim has the whole name.
    """
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        left_out = claims.get("_claim_names")
        if (isinstance(left_out, Mapping) and claim in left_out) or claims.get("hasgroups") in (True, "true"):
            return None
        return []
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list | tuple):
        return []
    named = dict.fromkeys(_name_of(one) for one in found[:MAX_GROUPS])
    return [name for name in named if name]


def _name_of(group: Any) -> str:
    if isinstance(group, Mapping):  # as WSO2 and some of SCIM send them
        group = group.get("display") or group.get("name") or group.get("value")
    return group[:255] if isinstance(group, str) else ""
