from collections.abc import Collection, Mapping
from datetime import timedelta

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from accounts.actors import grants_of
from accounts.models import ApiToken, Membership, Team, User, WebhookDelivery, WebhookEndpoint
from accounts.states import OPEN_DELIVERIES, RIGHTS, WEBHOOK_TEST, AccountKind, Right
from common import clock
from common.actor import Actor
from common.errors import Invalid
from common.models import AuditRecord
from common.webhooks import catalogue

EXPIRES_WITHIN = timedelta(days=7)
USED_WITHIN = timedelta(days=14)


def may(actor: Actor, right: Right, team: Team | int | None = None, *, service: str = "") -> bool:
    """Whether the actor has the right in that team, over that service; None: in any team at all."""
    return grants_of(actor).may(right, team.pk if isinstance(team, Team) else team, service=service)


def may_everywhere(actor: Actor, right: Right) -> bool:
    """Whether the actor has the right in the whole installation: Slipway itself and superusers."""
    grants = grants_of(actor)
    return right in grants.everywhere and (right == Right.READ or not grants.services)


def may_for_owner(actor: Actor, right: Right, owner: Team | int | None) -> bool:
    """Whether the actor has the right over what that team owns; None: what the installation owns."""
    return may_everywhere(actor, right) if owner is None else may(actor, right, owner)


def teams_where(actor: Actor, right: Right) -> QuerySet[Team]:
    grants = grants_of(actor)
    if right in grants.everywhere:
        return Team.objects.all()
    return Team.objects.filter(pk__in=grants.team_ids(right))


def team_named(actor: Actor, name: str) -> Team:
    """Return a team that the actor may see. Raises Invalid, which blames the field `team`."""
    found = teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Invalid(fields={"team": [_("There is no such team, or none that you may see.")]})
    return found


def person_named(actor: Actor, username: str) -> User:
    """Return a person whom the actor may know of. Raises Invalid, which blames the field `person`."""
    found: User | None = people(actor).filter(username=username).first()
    if found is None:
        raise Invalid(fields={"person": [_("There is no such person, or none that you may see.")]})
    return found


def people(actor: Actor) -> QuerySet[User]:
    """The people whom the actor may know of: oneself and those in the same teams."""
    if may_everywhere(actor, Right.READ):
        return User.objects.all()
    colleagues = Membership.objects.filter(team__in=teams_where(actor, Right.READ)).values("user")
    return User.objects.filter(Q(pk=actor.user_id) | Q(pk__in=colleagues))


def is_break_glass(username: str) -> bool:
    """The one account that signs in by password while SLIPWAY_PASSWORD_LOGIN is off."""
    named: str = settings.SLIPWAY_BREAK_GLASS_ACCOUNT
    return bool(named) and username.strip().casefold() == named.casefold()


def administrators() -> QuerySet[User]:
    """The people who can sign in and administer the whole installation."""
    can_sign_in = ~Q(password="") & ~Q(password__startswith=UNUSABLE_PASSWORD_PREFIX)
    if not settings.SLIPWAY_PASSWORD_LOGIN:
        can_sign_in &= Q(username__iexact=settings.SLIPWAY_BREAK_GLASS_ACCOUNT)
    if settings.SOCIALACCOUNT_PROVIDERS:
        can_sign_in |= Q(pk__in=SocialAccount.objects.values("user"))
    return User.objects.filter(
        can_sign_in, kind=AccountKind.PERSON, is_superuser=True, is_active=True, suspended_at=None
    )


def members(actor: Actor, team_name: str) -> QuerySet[Membership]:
    """The members of a team, none when the actor may not know of it."""
    visible = Membership.objects.filter(team__in=teams_where(actor, Right.READ), team__name=team_name)
    return visible.select_related("user", "team")


def tokens(actor: Actor) -> QuerySet[ApiToken]:
    """One's own tokens; administrators of the installation see all of them."""
    found = ApiToken.objects.select_related("owner", "team")
    return found if may_everywhere(actor, Right.PEOPLE_ADMIN) else found.filter(owner_id=actor.user_id)


def expiring_tokens() -> list[ApiToken]:
    """Return tokens that are in use and end within a week; short-lived ones are meant to."""
    now = clock.now()
    rows = ApiToken.objects.filter(
        revoked_at=None,
        is_exchanged=False,
        expires_at__range=(now, now + EXPIRES_WITHIN),
        last_used_at__gt=now - USED_WITHIN,
    )
    found = rows.select_related("owner", "team")
    return [row for row in found if row.expires_at - row.created_at > 2 * EXPIRES_WITHIN]


def token_names(pks: Collection[int]) -> Mapping[int, str]:
    """Return tokens' names, for those who may read the record of actions made with them."""
    return dict(ApiToken.objects.filter(pk__in=pks).values_list("pk", "name")) if pks else {}


def rights_held(actor: Actor) -> list[Right]:
    """Return the rights that the actor has in any team."""
    return [right for right in Right if may(actor, right)]


def may_for_oneself(actor: Actor, right: Right) -> bool:
    """Whether the actor may change what is a person's own: a token needs the scope, and no limit to a team or
    to services."""
    if actor.token_id is None:
        return actor.user_id is not None
    unlimited = ApiToken.objects.filter(pk=actor.token_id, team=None, services=[])
    return right in (actor.scopes or ()) and unlimited.exists()


def webhooks(actor: Actor, right: Right = Right.WEBHOOKS_WRITE) -> QuerySet[WebhookEndpoint]:
    """The actor's own endpoints and those of the teams in which it has the right; all of them for
    administrators."""
    found = WebhookEndpoint.objects.select_related("team", "person")
    if may_everywhere(actor, right):
        return found
    theirs = Q(team__in=teams_where(actor, right))
    if may_for_oneself(actor, Right.WEBHOOKS_WRITE):
        theirs |= Q(person_id=actor.user_id)
    return found.filter(theirs)


def listeners(team_id: int | None, *, for_all: bool = False) -> QuerySet[User]:
    """Return who may hear of a team's events: its members, and administrators; None: administrators alone,
    or everybody where the event is `for_all`.
    """
    known = Q() if for_all else Q(is_superuser=True)
    if team_id is not None:
        known |= Q(pk__in=Membership.objects.filter(team_id=team_id).values("user"))
    return User.objects.filter(known, is_active=True, suspended_at=None)


def deliveries(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    found = WebhookDelivery.objects.filter(endpoint=endpoint)
    return found.select_related("endpoint__team", "endpoint__person", "event")


def withdrawn_deliveries(endpoint: WebhookEndpoint) -> QuerySet[WebhookDelivery]:
    """Return what waits for a person who may not hear of it any more, who has left its team."""
    waiting = WebhookDelivery.objects.filter(endpoint=endpoint, state__in=OPEN_DELIVERIES)
    if (person := endpoint.person) is None or (person.works and person.is_superuser):
        return waiting.none()
    if not person.works:
        return waiting
    theirs = Membership.objects.filter(user=person).values("team")
    for_all = [name for name, known in catalogue.known().items() if known.without_team_for_all]
    return (
        waiting.exclude(event__team__in=theirs)
        .exclude(event__type=WEBHOOK_TEST)
        .exclude(event__team=None, event__type__in=for_all)
    )


def people_with(right: Right, team: Team | int) -> QuerySet[User]:
    """Active people who have the right in that team by their role: those whom an approval may wait for."""
    team_id = team.pk if isinstance(team, Team) else team
    roles = [role for role, rights in RIGHTS.items() if right in rights]
    return User.objects.filter(
        is_active=True, suspended_at=None, memberships__team_id=team_id, memberships__role__in=roles
    ).distinct()


def audit_records(actor: Actor) -> QuerySet[AuditRecord]:
    """Return the audit record of the teams that the actor may read; everything for administrators."""
    if may_everywhere(actor, Right.AUDIT_READ):
        return AuditRecord.objects.all()
    return AuditRecord.objects.filter(team_id__in=teams_where(actor, Right.AUDIT_READ).values("pk"))
