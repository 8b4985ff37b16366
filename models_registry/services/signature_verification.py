"""When the signatures of versions are looked at again."""

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import WrongState
from common.reconcile import kernel
from models_registry.models import Version, VersionSignature
from models_registry.states import VersionState
from trust.models import TrustedKey
from trust.states import SignatureVerdict


def verify_by(key: TrustedKey) -> None:
    """Verify signatures of unknown origin by this key, inside the transaction that trusts it."""
    rows = VersionSignature.objects.filter(version__model__team=key.team_id)
    maybe = Q(verdict=SignatureVerdict.UNKNOWN, fingerprint__in=(key.fingerprint, ""))
    again = rows.filter(maybe | Q(key__fingerprint=key.fingerprint)).values("version")
    for version in Version.objects.live().filter(pk__in=again).only("pk"):
        kernel.wake(version, signatures_checked_at=None)


def verify_signatures(*, actor: Actor, version: Version, reason: str = "") -> Version:
    """Look at a version's signatures again, and make ours if it has none and a key is set by now.

    Raises NotAllowed, WrongState.
    """
    require(actor, Right.MODELS_WRITE, version.model.team)
    why = texts.reason(reason)
    with transaction.atomic():
        if not kernel.wake(version, where={"state": VersionState.READY}, signatures_checked_at=None):
            raise WrongState(
                _("%(version)s is %(state)s; only a ready version is signed and verified.")
                % {"version": version, "state": version.get_state_display().lower()}
            )
        audit.record(actor, "version.verify", subject=version, reason=why, team_id=version.model.team_id)
    version.refresh_from_db()
    return version
