from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from accounts import selectors as accounts
from accounts.models import Membership, Team, User
from accounts.states import AccountKind, Right, Role, RoleSource
from common.actor import Actor
from identity.group_rules import GroupPattern, HeldMemberships, MembershipChange, changes, given_by
from identity.models import FederatedCredential, GroupRule, Identity, ProvisionedGroup


def rules(actor: Actor) -> QuerySet[GroupRule]:
    """All of them, for administrators of the installation; nobody else sees any."""
    found = GroupRule.objects.select_related("team")
    return found if accounts.may_everywhere(actor, Right.PEOPLE_ADMIN) else found.none()


def rules_in_force() -> list[GroupPattern]:
    return [GroupPattern(*row) for row in GroupRule.objects.values_list("pattern", "team_id", "role")]


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A role that somebody would gain or lose."""

    team: str
    """Empty: administrator of the installation."""
    before: Role | None
    after: Role | None

    @property
    def sign(self) -> str:
        if self.before is None:
            return "gained"
        return "lost" if self.after is None else "changed"


@dataclass(frozen=True, slots=True)
class DryRun:
    people: Sequence[tuple[Identity, Sequence[ShownChange]]]
    """Those for whom something would change."""
    known: int
    """People whose groups are known."""


def dry_run(rules: Iterable[GroupPattern]) -> DryRun:
    """Return what these rules would change for everybody whose groups are known from their last sign-in.
    Takes a few queries, however many people.
    """
    rules = list(rules)
    identities = list(Identity.objects.select_related("user").order_by("user__username"))
    held, provisioned = _held([one.user for one in identities]), _provisioned()
    teams = dict(Team.objects.values_list("pk", "name"))
    changed = [
        (
            one,
            _shown(
                changes(held[one.user_id], given_by(rules, [*one.groups, *provisioned.get(one.user_id, ())])),
                teams,
            ),
        )
        for one in identities
    ]
    return DryRun([(one, found) for one, found in changed if found], len(identities))


def _provisioned() -> Mapping[int, Sequence[str]]:
    """Names of groups by the ids of their members."""
    found: dict[int, list[str]] = {}
    for user_id, name in ProvisionedGroup.members.through.objects.values_list(
        "user_id", "provisionedgroup__name"
    ):
        found.setdefault(user_id, []).append(name)
    return found


def tried(rules: Iterable[GroupPattern], groups: Sequence[str]) -> Sequence[ShownChange]:
    """Work out what somebody in these groups who has nothing yet would be given."""
    teams = dict(Team.objects.values_list("pk", "name"))
    return _shown(changes(HeldMemberships({}, {}), given_by(rules, groups)), teams)


def _shown(found: Sequence[MembershipChange], teams: Mapping[int, str]) -> Sequence[ShownChange]:
    return [
        ShownChange(teams.get(one.team_id, "") if one.team_id else "", one.before, one.after) for one in found
    ]


def _held(users: Sequence[User]) -> Mapping[int, HeldMemberships]:
    by_rule: dict[int, dict[int, Role]] = {user.pk: {} for user in users}
    by_hand: dict[int, dict[int, Role]] = {user.pk: {} for user in users}
    rows = Membership.objects.filter(user__in=users).values_list("user_id", "team_id", "role", "source")
    for user_id, team_id, role, source in rows:
        (by_rule if source == RoleSource.RULE else by_hand)[user_id][team_id] = Role(role)
    return {
        user.pk: HeldMemberships(by_rule[user.pk], by_hand[user.pk], user.is_superuser, user.admin_by_rule)
        for user in users
    }


def service_accounts(actor: Actor) -> QuerySet[User]:
    """Return the service accounts in teams that the actor may see; all of them for administrators."""
    return accounts.people(actor).filter(kind=AccountKind.SERVICE)


def credentials(actor: Actor) -> QuerySet[FederatedCredential]:
    """Return the credentials of the service accounts that the actor may see."""
    found = FederatedCredential.objects.select_related("account")
    return found.filter(account__in=service_accounts(actor))
