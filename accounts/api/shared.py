"""What endpoints of other apps have in common with these."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from accounts.actors import again
from common.api.streams import ServerEvent, events_response
from common.api.views import Endpoint

TEAM = OpenApiParameter("team", OpenApiTypes.STR, OpenApiParameter.PATH, description="Name of the team.")


def events_of(
    row: Any,
    endpoint: Endpoint,
    *,
    read: Callable[[int, str], Sequence[ServerEvent]],
) -> HttpResponseBase:
    """Yield events of what `read` returns for the row's id while the actor may see it; see
    `common.api.streams`.
    """
    actor, rows = endpoint.actor, type(row).objects

    def may_go_on() -> bool:
        return bool(rows.for_actor(again(actor)).filter(pk=row.pk).exists())

    return events_response(endpoint.request._request, read=partial(read, row.pk), may_go_on=may_go_on)
