from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import texts
from common.actor import Actor
from common.errors import WrongState
from common.reconcile import kernel
from common.sentences import listed
from models_registry import transitions
from models_registry.errors import InUse, UnknownModel
from models_registry.models import Alias, Model, Version
from models_registry.references import uses
from models_registry.states import VersionState


def delete_version(*, actor: Actor, version: Version, reason: str = "") -> None:
    """Let go of a version's files; its row and name stay taken.

    Raises NotAllowed, WrongState while it is importing, InUse while an alias or a deployment needs it.
    """
    require(actor, Right.MODELS_WRITE, version.model.team)
    why = texts.reason(reason)
    if version.state in (VersionState.IMPORTING, VersionState.DELETED):
        if version.state == VersionState.IMPORTING:
            raise WrongState(
                _("%(version)s is still importing. Cancel the import first.") % {"version": version}
            )
        raise WrongState(
            _("%(version)s is %(state)s.")
            % {"version": version, "state": version.get_state_display().lower()}
        )
    remove(version, actor=actor, reason=why)
    version.refresh_from_db()


def remove(version: Version, *, actor: Actor, reason: str) -> None:
    """Delete a version that nothing needs. Raises WrongState, InUse."""
    with transaction.atomic():
        # The row is locked by this change, and `set_alias` locks it too: of the two, the later one sees
        # what the earlier one did.
        let_go(version, actor=actor, reason=reason)
        check_unneeded(version)


def check_unneeded(version: Version) -> None:
    """Raises InUse while an alias or a deployment needs the version, whose row the caller has locked."""
    aliases = list(Alias.objects.filter(version=version).values_list("name", flat=True))
    if aliases:
        raise InUse(
            _("%(version)s is %(aliases)s. Move or delete the alias first.")
            % {"version": version, "aliases": ", ".join(sorted(aliases))}
        )
    if used := uses([version.pk]).get(version.pk):
        raise InUse(_("%(version)s is still used by %(used)s.") % {"version": version, "used": listed(used)})


def let_go(version: Version, *, actor: Actor, reason: str) -> None:
    """Move to deleted; the reconciler removes the files. Inside the caller's transaction and after its
    checks.
    """
    columns, write = transitions.moved(
        version, VersionState.DELETED, actor=actor, reason=reason, is_held=True
    )
    compare_and_set(version, columns)
    write()


def compare_and_set(version: Version, columns: Mapping[str, Any]) -> None:
    """Take the row away from whoever works on it and change it, if its state is still the one that was read.

    Raises WrongState.
    """
    if not kernel.interrupt(version, where={"state": version.state}, **columns):
        raise WrongState(_("%(version)s has just changed its state. Look again.") % {"version": version})


def hold(model: Model) -> None:
    """Lock the model's row until the transaction ends. Raises UnknownModel when it was deleted."""
    if not Model.objects.live().filter(pk=model.pk).update(deleted_at=None):
        raise UnknownModel(_("There is no model %(model)s any more.") % {"model": model.name})


def touch(version: Version) -> None:
    """Lock a ready version's row until the transaction ends. Raises WrongState when it is not ready."""
    if not Version.objects.ready().filter(pk=version.pk).update(state=VersionState.READY):
        current = Version.objects.filter(pk=version.pk).values_list("state", flat=True).first()
        raise WrongState(
            _("%(version)s is %(current)s; an alias points at a ready version.")
            % {"version": version, "current": VersionState(current).label.lower() if current else current}
        )
