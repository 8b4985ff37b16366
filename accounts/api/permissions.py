"""The right that an endpoint names is asked for before anything of the body is looked at.

`needs` of an endpoint says per action which right it takes; its service asks again, in the team that it
changes. Who has the right nowhere is refused first, who lacks it in the team of the object when that is read.
"""

from typing import Any, NamedTuple

from django.utils.translation import gettext as _
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from accounts.actors import of_request
from accounts.errors import OutOfScope
from accounts.models import ApiToken, Team
from accounts.querysets import TeamOwned
from accounts.services.rights import require, require_everywhere
from accounts.states import Right

REPORTING = frozenset({Right.FLEET_REPORT, Right.FLEET_EVENTS, Right.FLEET_FETCH})


class ListsNothingToReporters(IsAuthenticated):
    """The token of an agent lies on a machine where others compute: it reports and fetches, and reads nothing
    else. Views that such tokens call have `serves_reporters`."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not super().has_permission(request, view):
            return False
        token = request.auth
        if (
            isinstance(token, ApiToken)
            and token.rights <= REPORTING
            and token.rights
            and not getattr(view, "serves_reporters", False)
        ):
            raise OutOfScope(_("This token only reports: it may read and change nothing else."))
        return True


class InstallationRight(NamedTuple):
    """A right that is needed in the whole installation."""

    right: Right


class HasRight(ListsNothingToReporters):
    def has_permission(self, request: Request, view: Any) -> bool:
        """Raises NotAllowed."""
        if not super().has_permission(request, view):
            return False
        needed = _needed(request, view)
        if isinstance(needed, InstallationRight):
            require_everywhere(of_request(request._request), needed.right)
        elif needed is not None:
            require(of_request(request._request), needed)
        return True

    def has_object_permission(self, request: Request, view: Any, row: Any) -> bool:
        """Raises NotAllowed."""
        needed = _needed(request, view)
        if isinstance(needed, Right) and (team := _team_of(row)) is not None:
            service = view.service_of(row) if hasattr(view, "service_of") else ""
            require(of_request(request._request), needed, team, service=service)
        return True


def _needed(request: Request, view: Any) -> Right | InstallationRight | None:
    action = getattr(view, "action", None) or str(request.method).lower()
    needed: Right | InstallationRight | None = getattr(view, "needs", {}).get(action)
    return needed


def _team_of(row: Any) -> Team | None:
    """The team that owns the row, by the path that its queries take; None for what nobody's team owns."""
    if isinstance(row, Team):
        return row
    rows = type(row)._default_manager.all()
    if not isinstance(rows, TeamOwned):
        return None
    for name in rows.team_path.split("__"):
        row = getattr(row, name)
        if row is None:
            return None
    return row if isinstance(row, Team) else None
