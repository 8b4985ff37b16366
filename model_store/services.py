"""Operations on the whole store, and quotas of teams."""

from typing import Any, TypeVar

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_everywhere
from accounts.states import Right
from common import audit, texts
from common.actor import Actor
from common.errors import Invalid
from common.hosts import this_host
from common.jobs.rows import NEVER_LAUNCHED
from common.reconcile import kernel
from model_store import blob_store
from model_store.errors import RunUnderWay, WrongRunState
from model_store.models import Check, Collection, CorruptBlob, ModelDirectoryHost, StorageQuota
from model_store.states import CorruptBlobState

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
    why = texts.demanded_reason(reason)
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
        raise RunUnderWay(_("Somebody else sets this quota right now. Look again.")) from None
    return quota


MOST_GRACE_HOURS = 8_760
_ACTIONS = {Collection: "store.collect", Check: "store.check"}
R = TypeVar("R", Collection, Check)


def start_collection(*, actor: Actor, reason: str = "", grace_seconds: int | None = None) -> Collection:
    """Delete what no version has needed for the grace time; it goes on after the answer.

    `grace_seconds`: the installation's unless given. One that is stuck is tried again. Raises
    NotAdministrator, Busy.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = texts.reason(reason)
    stuck = _tried_again(Collection, actor=actor, reason=why)
    return stuck or begin_collection(actor=actor, reason=why, grace_seconds=grace_seconds)


def begin_collection(*, actor: Actor, reason: str = "", grace_seconds: int | None = None) -> Collection:
    """Raises RunUnderWay."""
    grace = settings.SLIPWAY_STORE_GRACE_SECONDS if grace_seconds is None else grace_seconds
    row = Collection(asked_by_name=actor.name, reason=reason, grace_seconds=grace, began_at=kernel.clock())
    return _begun(row, actor=actor)


def start_check(*, actor: Actor, reason: str = "") -> Check:
    """Read the whole store and compare; it goes on after the answer. One that is stuck is tried again.

    Raises NotAdministrator, RunUnderWay.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = texts.reason(reason)
    stuck = _tried_again(Check, actor=actor, reason=why)
    return stuck or begin_check(actor=actor, reason=why)


def begin_check(*, actor: Actor, reason: str = "") -> Check:
    """Raises RunUnderWay."""
    row = Check(
        asked_by_name=actor.name,
        reason=reason,
        bytes_per_second=settings.SLIPWAY_STORE_CHECK_BYTES_PER_SECOND,
        began_at=kernel.clock(),
    )
    return _begun(row, actor=actor)


def _tried_again(kind: type[R], *, actor: Actor, reason: str) -> R | None:
    """The run of this kind that is stuck, if one is. Raises RunUnderWay."""
    stuck = kind.objects.running().filter(stuck_at__isnull=False).first()
    if stuck is None:
        return None
    with transaction.atomic():
        if not kernel.try_again(stuck, actor=actor, reason=reason):
            raise _busy(kind)
        audit.record(actor, _ACTIONS[kind], subject=stuck, reason=reason)
    return kind.objects.get(pk=stuck.pk)


def _begun(row: R, *, actor: Actor) -> R:
    """Raises RunUnderWay while another one of its kind runs."""
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit.record(actor, _ACTIONS[type(row)], subject=row, reason=row.reason)
            kernel.wake(row)
    except IntegrityError:
        raise _busy(type(row)) from None
    return row


def _busy(kind: type[Collection | Check]) -> RunUnderWay:
    return RunUnderWay(
        _("A %(verbose_name)s is under way already.") % {"verbose_name": kind._meta.verbose_name}
    )


def retry_repair(*, actor: Actor, corrupt_blob: CorruptBlob, reason: str = "") -> CorruptBlob:
    """Ask the sources of a blob that is lost, or whose repair is stuck, once more.

    Raises NotAdministrator, WrongRunState.
    """
    require_everywhere(actor, Right.FLEET_OPERATE)
    why = texts.reason(reason)
    with transaction.atomic():
        if not look_again(corrupt_blob) and not kernel.try_again(corrupt_blob, actor=actor, reason=why):
            raise WrongRunState(
                _("The finding is %(state)s; only what is lost can be looked for again.")
                % {"state": corrupt_blob.get_state_display().lower()}
            )
        audit.record(actor, "finding.retry", subject=corrupt_blob, reason=why)
    return CorruptBlob.objects.get(pk=corrupt_blob.pk)


def look_for_what_was_lost(brought: QuerySet[Any, Any]) -> None:
    """The blobs of these sha256s are in the store now, and lost no more. Inside the caller's transaction."""
    for corrupt_blob in CorruptBlob.objects.filter(state=CorruptBlobState.LOST, sha256__in=brought):
        look_again(corrupt_blob)


def look_again(corrupt_blob: CorruptBlob, to: CorruptBlobState = CorruptBlobState.ASIDE, **seen: Any) -> bool:
    """Whether it was lost, and is looked for again. `seen`: what was there. Inside a transaction."""
    lost = {"state": CorruptBlobState.LOST}
    anew = {"reason": "", "tried": [], **NEVER_LAUNCHED, **seen}
    return kernel.interrupt(corrupt_blob, to=to, where=lost, **anew)


def note_directories_here() -> None:
    """Versions of a bucket are laid out on this host from now on; beside a shared directory all see them."""
    if settings.SLIPWAY_STORE:
        ModelDirectoryHost.objects.get_or_create(host=this_host(), defaults={"lane_host": this_host()})


def let_go_of_directory(digest: str) -> None:
    """No version has these files any more: on this host at once, on others by their own processes."""
    blob_store.store().dematerialise(digest)
    for row in ModelDirectoryHost.objects.exclude(host=this_host()):
        kernel.wake(row)
