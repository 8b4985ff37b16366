from django.utils.translation import gettext as _

from accounts import selectors
from accounts.actors import read_grants
from accounts.errors import NotAdministrator, OutOfScope, RightMissing
from accounts.models import ApiToken, Team
from accounts.states import RIGHTS, Right
from common.actor import Actor
from common.sentences import joined, listed


def require(actor: Actor, right: Right, team: Team | int | None = None, *, service: str = "") -> None:
    """Raises NotAllowed or OutOfScope unless the actor has the right in that team (None: in any team).

    `service`: what it is about; a token that is limited to services has rights over these alone.
    """
    if selectors.may(actor, right, team, service=service):
        return
    _blame_token(actor, right, team)
    if isinstance(team, Team):
        said = _("You may not %(deed)s in team %(team)s.")
    else:
        said = _("You may not %(deed)s in that team.") if team else _("You may not %(deed)s in any team.")
    refusal = said % {"deed": right.label, "team": team}
    needed = _("That takes the right %(right)s, which these roles have: %(roles)s. Ask an admin of the team.")
    raise RightMissing(joined((refusal, needed % {"right": right.value, "roles": _holders(right)})))


def _holders(right: Right) -> str:
    return listed(str(role.label).lower() for role, rights in RIGHTS.items() if right in rights)


def require_everywhere(actor: Actor, right: Right) -> None:
    """Raises NotAdministrator or OutOfScope unless the actor has the right in the whole installation."""
    if selectors.may_everywhere(actor, right):
        return
    _blame_token(actor, right, None, everywhere=True)
    raise NotAdministrator(
        _("You may not %(deed)s of the whole installation. Ask one of its administrators.")
        % {"deed": right.label}
    )


def require_beyond_a_team(actor: Actor, right: Right) -> None:
    """Require the right in any team for what reaches beyond it: a token that is limited to a team may not."""
    require(actor, right)
    if actor.token_id is not None and ApiToken.objects.filter(pk=actor.token_id, team__isnull=False).exists():
        raise OutOfScope(_("This token is limited to one team, and this concerns the whole installation."))


def require_for_owner(actor: Actor, right: Right, owner: Team | int | None) -> None:
    """Require the right in the owner team, or everywhere if the installation is the owner (None)."""
    if owner is None:
        require_everywhere(actor, right)
    else:
        require(actor, right, owner)


def _blame_token(actor: Actor, right: Right, team: Team | int | None, *, everywhere: bool = False) -> None:
    if actor.token_id is None:
        return
    owner = read_grants(Actor(name=actor.name, user_id=actor.user_id, via=actor.via))
    team_id = team.pk if isinstance(team, Team) else team
    if right in owner.everywhere or (not everywhere and owner.may(right, team_id)):
        said = _(
            "This token may not %(deed)s here, though its owner may: it lacks the scope %(scope)s, or is "
            "limited to another team or other services. Use a token that has it."
        )
        raise OutOfScope(said % {"deed": right.label, "scope": right.value})
