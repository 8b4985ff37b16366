"""Who may choose between stable and candidate by a request's own headers."""

import secrets
from typing import cast

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from gateway import routes as gateway_routes
from gateway import services as gateway
from gateway.models import sealed_key
from releases.errors import InvalidService
from releases.events import ServiceChanged
from releases.models import Service
from releases.states import ReleaseHeader

KEY_BYTES = 32


def set_release_header(service: Service, *, actor: Actor, header: str, reason: str = "") -> str:
    """Let nobody, those who have a key, or everybody choose a side by `x-release`; also while a release runs.

    Returns the key, which is kept sealed and shown only now; empty unless `header` is `secret`. Asked for
    again, it is another one, and the one before holds no longer. The gateway knows within seconds. Raises
    NotAllowed, InvalidService.
    """
    require(actor, Right.SERVICES_WRITE, service.team)
    if header not in ReleaseHeader.values:
        words = _("'%(header)s' is none of %(choices)s.")
        told = {"header": header, "choices": ", ".join(ReleaseHeader.values)}
        raise InvalidService(fields={"release_header": [words % told]})
    key = secrets.token_urlsafe(KEY_BYTES) if header == ReleaseHeader.SECRET else ""
    before = service.release_header
    with transaction.atomic():
        service.change(expected=None, release_header=header, sealed_release_key=sealed_key(key))
        gateway.set_release_header(
            service.name, cast("gateway_routes.ReleaseHeader", header), key=key, actor=actor
        )
        audit.record(
            actor,
            "service.release_header",
            subject=service,
            team_id=service.team_id,
            reason=reason,
            detail={"from": before, "to": header},
        )
        events.publish(ServiceChanged(service.pk))
    return key
