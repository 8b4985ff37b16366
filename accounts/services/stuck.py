"""What a person does about a stuck row: try it again, or say whether an effect in doubt took place."""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts import stuck
from accounts.models import Team
from accounts.services.rights import require_everywhere, require_for_owner
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.errors import Conflict
from common.models import Intent
from common.pages.subjects import column_of, title_of
from common.reconcile import Reconciled, kernel
from common.texts import demanded_reason


def retry(*, actor: Actor, kind: str, pk: int, reason: str) -> Reconciled:
    """Begin the step of a stuck row anew.

    Raises Missing, NotAllowed, Invalid, Conflict if it is not stuck.
    """
    row, team = owned_row(actor, kind, pk)
    why = demanded_reason(reason)
    with transaction.atomic():
        if not kernel.try_again(row, actor=actor, reason=why):
            raise Conflict(_("%(title)s is not stuck: there is nothing to retry.") % {"title": title_of(row)})
        audit.record(actor, f"{row._meta.model_name}.retry", subject=row, reason=why, team_id=_id(team))
    row.refresh_from_db()
    return row


def answer(*, actor: Actor, kind: str, pk: int, op_key: str, happened: bool, reason: str) -> Reconciled:
    """Say whether an effect took place of which nobody knows; after the last such answer the row goes on.

    Raises Missing, NotAllowed, Invalid, Conflict if the effect is not in doubt.
    """
    row, team = owned_row(actor, kind, pk)
    why = demanded_reason(reason)
    with transaction.atomic():
        doubt: Intent | None = kernel.doubts(row).filter(op_key=op_key).first()
        if doubt is None or not kernel.answer(row, op_key, happened=happened, actor=actor, reason=why):
            raise Conflict(
                _("%(op_key)s of %(title)s is not in doubt: it was answered already, or there is none.")
                % {"op_key": op_key, "title": title_of(row)}
            )
        audit.record(
            actor,
            f"{row._meta.model_name}.answer",
            subject=row,
            reason=why,
            detail={
                "op_key": op_key,
                "step": doubt.step,
                "wanted": doubt.wanted,
                "happened": happened,
            },
            team_id=_id(team),
        )
    row.refresh_from_db()
    return row


def owned_row(actor: Actor, kind: str, pk: int) -> tuple[Reconciled, Team | None]:
    """Return the row and the team that owns it. Raises Missing, NotAllowed."""
    path = stuck.team_column(kind) if kind in kernel.kinds else ""
    if path is None:
        require_everywhere(actor, Right.FLEET_OPERATE)
        return stuck.one_of(kind, pk, actor), None
    row = stuck.one_of(kind, pk, actor)
    team: Team | None = column_of(row, path)
    require_for_owner(actor, stuck.right_over(kind), team)
    return row, team


def _id(team: Team | None) -> int | None:
    return team.pk if team else None
