from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services import require_everywhere
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Invalid
from models_registry.errors import Busy
from models_registry.models import StorageQuota
from models_registry.services import checks

MOST_BYTES = 2**62


def set_quota(
    *,
    actor: Actor,
    team: Team,
    limit_bytes: int | None,
    reason: str,
    expected: int | None = None,
) -> StorageQuota:
    """Limit what the versions of a team may hold, in bytes; None: no limit. What it holds already stays.

    Raises NotAdministrator, Invalid (a reason is needed), Stale.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = checks.demanded_reason(reason)
    if limit_bytes is not None and not 0 <= limit_bytes <= MOST_BYTES:
        raise Invalid(
            fields={
                "limit_bytes": [
                    _("From 0 to %(most_bytes)s bytes, or none.") % {"most_bytes": f"{MOST_BYTES:,}"}
                ]
            }
        )
    changed = {"limit_bytes": limit_bytes, "reason": why, "changed_by_name": actor.name}
    try:
        with transaction.atomic():
            quota, is_new = StorageQuota.objects.get_or_create(team=team, defaults=changed)
            former = None if is_new else quota.limit_bytes
            if not is_new:
                quota.change(expected=expected, changed_at=timezone.now(), **changed)
            detail = {"limit_bytes": limit_bytes, "former_limit_bytes": former}
            audit.record(actor, "quota.set", subject=quota, reason=why, detail=detail, team_id=team.pk)
    except IntegrityError:
        raise Busy(_("Somebody else sets this quota right now. Look again.")) from None
    return quota
