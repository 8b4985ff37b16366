"""The team that a page among its settings is about."""

from django.http import Http404
from django.utils.translation import gettext as _

from accounts import selectors as accounts
from accounts.models import Team
from accounts.states import Right
from common.actor import Actor


def visible_team(actor: Actor, name: str) -> Team:
    """Raises Http404."""
    found = accounts.teams_where(actor, Right.READ).filter(name=name).first()
    if found is None:
        raise Http404(_("There is no such team, or you are not in it."))
    return found
