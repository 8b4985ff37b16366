from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, events, texts
from common.actor import Actor
from common.errors import Stale
from models_registry import names
from models_registry.errors import UnknownVersion
from models_registry.events import AliasMoved
from models_registry.models import Alias, AliasMove, Model, Version
from models_registry.services.versions import touch


def set_alias(
    *,
    actor: Actor,
    model: Model,
    alias: str,
    version: Version,
    reason: str = "",
    expected: int | None = None,
    release_id: int | None = None,
) -> Alias:
    """Point an alias at a ready version of the model, and remember who, when and why.

    Pointing it where it points already changes nothing. `expected` is the alias's revision as it was read.
    Raises NotAllowed, InvalidName, Invalid, WrongState, Stale when somebody else has moved it meanwhile.
    """
    _require(actor, model, alias)
    names.check_alias_name(alias)
    why = texts.reason(reason)
    if version.model_id != model.pk:
        raise UnknownVersion(
            _("%(version)s is not a version of %(model)s.") % {"version": version, "model": model}
        )
    stale = Stale(
        _("%(model)s:%(alias)s was moved by someone else meanwhile. Read it again, then repeat the move.")
        % {"model": model, "alias": alias}
    )
    try:
        with transaction.atomic():
            touch(version)
            row = Alias.objects.filter(model=model, name=alias).first()
            if row is not None and row.version_id == version.pk and expected in (None, row.revision):
                return row
            placed = {"version": version, "moved_at": timezone.now(), "moved_by": actor.name, "reason": why}
            came_from = row.version_id if row else None
            if row is None:
                if expected is not None:
                    raise stale
                row = Alias.objects.create(model=model, name=alias, **placed)
            else:
                row.change(expected=row.revision if expected is None else expected, **placed)
            _remember(actor, row, came_from, version.pk, reason=why, release_id=release_id)
    except IntegrityError:
        raise stale from None
    return row


def delete_alias(*, actor: Actor, alias: Alias, reason: str = "", expected: int | None = None) -> None:
    """Delete an alias; its history stays. Raises NotAllowed, Stale."""
    _require(actor, alias.model, alias.name)
    why = texts.reason(reason)
    with transaction.atomic():
        alias.change(expected=alias.revision if expected is None else expected)
        _remember(actor, alias, alias.version_id, None, reason=why, release_id=None)
        Alias.objects.filter(pk=alias.pk).delete()


def _require(actor: Actor, model: Model, alias: str) -> None:
    require(actor, Right.MODELS_WRITE, model.team)
    if alias in model.protected_aliases:
        require(actor, Right.ALIASES_PROTECTED, model.team)


def _remember(
    actor: Actor,
    alias: Alias,
    from_version_id: int | None,
    to_version_id: int | None,
    *,
    reason: str,
    release_id: int | None,
) -> None:
    move = AliasMove.objects.create(
        model=alias.model,
        alias=alias.name,
        from_version_id=from_version_id,
        to_version_id=to_version_id,
        at=timezone.now(),
        by=actor.name,
        user_id=actor.user_id,
        reason=reason,
        release_id=release_id,
    )
    detail = {"from": from_version_id, "to": to_version_id, "release": release_id}
    action = "alias.move" if to_version_id else "alias.delete"
    audit.record(actor, action, subject=alias, reason=reason, detail=detail, team_id=alias.model.team_id)
    events.publish(AliasMoved(alias.model_id, alias.name, from_version_id, to_version_id, move.pk))
