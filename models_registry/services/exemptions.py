from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid, WrongState
from models_registry.models import CodeExemption, Model

LONGEST = timedelta(days=180)


def exempt_code(
    *,
    actor: Actor,
    team: Team,
    until: datetime,
    reason: str,
    model: Model | None = None,
    covers_runnable: bool = False,
) -> CodeExemption:
    """Let versions with code be served until then: of one model, or of all that the team has.

    `covers_runnable` lets formats enter and be served that run code when they are loaded, such as pickles.

    Raises NotAllowed, Invalid without a reason, for a time that is past or more than 180 days away, or for
    another team's model.
    """
    require(actor, Right.CODE_EXEMPT, team)
    why, now = texts.demanded_reason(reason), timezone.now()
    if until <= now:
        raise Invalid(fields={"until": [_("It must lie in the future.")]})
    if until > now + LONGEST:
        raise Invalid(fields={"until": [_("At most %(days)s days from now.") % {"days": LONGEST.days}]})
    if model is not None and model.team_id != team.pk:
        raise Invalid(
            fields={
                "model": [
                    _("Team %(team)s has no model %(model)s.") % {"team": team.name, "model": model.name}
                ]
            }
        )
    with transaction.atomic():
        row = CodeExemption.objects.create(
            team=team,
            model=model,
            covers_runnable=covers_runnable,
            reason=why,
            given_at=now,
            given_by=actor.name,
            user_id=actor.user_id,
            until=until,
        )
        detail = {
            "model": model.name if model else None,
            "until": until.isoformat(),
            "covers_runnable": covers_runnable,
        }
        audit.record(actor, "code.exempt", subject=row, reason=why, detail=detail, team_id=team.pk)
    return row


def end_exemption(*, actor: Actor, exemption: CodeExemption, reason: str) -> CodeExemption:
    """End it before its time; what is served goes on. Raises NotAllowed, Invalid, WrongState."""
    require(actor, Right.CODE_EXEMPT, exemption.team)
    why, now = texts.demanded_reason(reason), timezone.now()
    with transaction.atomic():
        rows = CodeExemption.objects.in_force(now).filter(pk=exemption.pk)
        if not rows.update(ended_at=now, ended_by=actor.name):
            raise WrongState(_("This exemption has ended already."))
        audit.record(actor, "code.exempt_end", subject=exemption, reason=why, team_id=exemption.team_id)
    exemption.refresh_from_db()
    return exemption
