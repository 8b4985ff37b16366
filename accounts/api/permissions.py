"""Who may call the REST API at all, before an endpoint asks for its right."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request

from accounts.errors import OutOfScope
from accounts.models import ApiToken
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
