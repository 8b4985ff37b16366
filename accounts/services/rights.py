from accounts import selectors
from accounts.actors import read_grants
from accounts.errors import NotAdministrator, NotAllowed, OutOfScope
from accounts.models import Team
from accounts.states import RIGHTS, Right
from common.actor import Actor


def require(actor: Actor, right: Right, team: Team | int | None = None) -> None:
    """Raises NotAllowed or OutOfScope unless the actor has the right in that team (None: in any team)."""
    if selectors.may(actor, right, team):
        return
    _blame_token(actor, right, team)
    where = f"in team {team.name}" if isinstance(team, Team) else "in that team" if team else "in any team"
    raise NotAllowed(
        f"You may not {right.label} {where}. That takes the right {right.value}, which {_holders(right)}. "
        "Ask an admin of the team."
    )


def _holders(right: Right) -> str:
    *others, last = [role.label.lower() for role, rights in RIGHTS.items() if right in rights]
    return f"the roles {', '.join(others)} and {last} have" if others else f"the role {last} has"


def require_everywhere(actor: Actor, right: Right) -> None:
    """Raises NotAdministrator or OutOfScope unless the actor has the right in the whole installation."""
    if selectors.may_everywhere(actor, right):
        return
    _blame_token(actor, right, None, everywhere=True)
    raise NotAdministrator(
        f"You may not {right.label} of the whole installation. Ask one of its administrators."
    )


def require_for_owner(actor: Actor, right: Right, owner: Team | None) -> None:
    """As `require` for what that team owns, as `require_everywhere` for what the installation owns (None)."""
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
        raise OutOfScope(
            f"This token may not {right.label} here, though its owner may: it lacks the scope {right.value}, "
            "or is limited to another team. Use a token that has it."
        )
