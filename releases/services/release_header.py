"""Who may choose between stable and candidate by a request's own headers."""

import secrets
from typing import cast

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from gateway import routes as gateway_routes
from gateway.models import sealed_key
from gateway.services import routes
from releases.errors import InvalidService
from releases.events import ServiceChanged
from releases.models import Service
from releases.policy import PolicyTerm, guards_candidate, stricter
from releases.selectors.plans import policy_at_start, policy_of
from releases.selectors.services import release_of
from releases.services.policy import may_lower, record_lowering
from releases.states import ReleaseHeader

KEY_BYTES = 32


def set_release_header(service: Service, *, actor: Actor, header: str, reason: str = "") -> str:
    """Let nobody, those who have a key, or everybody choose a side by `x-release`; also while a release runs.

    Returns the key, which is kept sealed and shown only now; empty unless `header` is `secret`. Asked for
    again, it is another one, and the one before holds no longer. The gateway knows within seconds.

    To open it to everybody where releases need an approval or a judge takes the right `releases.bypass` and a
    `reason`: any client could reach the candidate before either. Raises NotAllowed, InvalidService,
    BelowPolicy, BypassReasonMissing.
    """
    require(actor, Right.SERVICES_WRITE, service.team, service=service.name)
    if header not in ReleaseHeader.values:
        words = _("'%(header)s' is none of %(choices)s.")
        told = {"header": header, "choices": ", ".join(ReleaseHeader.values)}
        raise InvalidService(fields={"release_header": [words % told]})
    key = secrets.token_urlsafe(KEY_BYTES) if header == ReleaseHeader.SECRET else ""
    with transaction.atomic():
        # Locks the row, so that nobody raises the policy between the look at it and the change.
        Service.objects.filter(pk=service.pk).update(plan_name=F("plan_name"))
        service.refresh_from_db(fields=["plan_name", "policy", "policy_replaces_team", "release_header"])
        before = service.release_header
        easier = _easier(service) if header == ReleaseHeader.OPEN != before else ()
        advice = _("Let clients that send the key choose it.")
        may_lower(easier, actor=actor, team=service.team, reason=reason, advice=advice)
        service.change(expected=None, release_header=header, sealed_release_key=sealed_key(key))
        routes.set_release_header(
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
        record_lowering(easier, actor=actor, subject=service, team=service.team, reason=reason)
        events.publish(ServiceChanged(service.pk))
    return key


def _easier(service: Service) -> tuple[PolicyTerm, ...]:
    """Return what is no longer demanded of the next or the active release once every client may choose."""
    policy = policy_of(service)
    if (release := release_of(service)) is not None:
        policy = stricter(policy, policy_at_start(release))
    return (PolicyTerm("header"),) if guards_candidate(policy) else ()
