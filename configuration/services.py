from django.db import transaction

from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from configuration.models import AppliedDocument


def forget_document(row: AppliedDocument, *, actor: Actor, reason: str = "") -> None:
    """Let people manage the object again; it stays as it is. Raises NotAllowed."""
    require(actor, Right.SERVICES_WRITE, row.team)
    with transaction.atomic():
        detail = {"kind": row.kind, "name": row.name, "file_set": row.file_set}
        audit.record(
            actor, "configuration.forget", subject=row, team_id=row.team_id, reason=reason, detail=detail
        )
        row.delete()
