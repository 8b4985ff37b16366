from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit
from common.actor import Actor
from common.reconcile import kernel
from releases.errors import InvalidService, NotPossibleNow
from releases.judge.threshold import Threshold, at_bound
from releases.models import Release, Service, SlowThreshold
from releases.states import ThresholdSource

LONGEST_MS = 320_000


def keep_threshold(release: Release, learnt: Threshold) -> None:
    """Keep what a release has learnt of its service. Inside the transaction of the look that learnt it."""
    # Kept in a row, so it stays English.
    was = "" if learnt.previous_ms is None else f" instead of {learnt.previous_ms:g} ms"  # untranslated
    reason = f"Learnt from {learnt.requests:,} healthy answers of stable{was}."  # untranslated
    _keep(
        release.service,
        learnt.milliseconds,
        ThresholdSource.LEARNT,
        "slipway",
        reason,
        release,
        learnt.requests,
    )


def set_slow_threshold(service: Service, *, actor: Actor, milliseconds: float, reason: str) -> SlowThreshold:
    """Call slower than that slow, from the next release of the service on.

    It becomes the gateway's bound at or above it. Raises NotAllowed, InvalidService.
    """
    require(actor, Right.RELEASES_APPROVE, service.team, service=service.name)
    if not 1 <= milliseconds <= LONGEST_MS:
        raise InvalidService(
            fields={"milliseconds": [_("Give 1 to %(longest_ms)s ms.") % {"longest_ms": f"{LONGEST_MS:,}"}]}
        )
    if not reason.strip():
        raise InvalidService(fields={"reason": [_("Say why this is the service's usual speed.")]})
    with transaction.atomic():
        before = SlowThreshold.objects.filter(service=service).first()
        row = _keep(service, at_bound(milliseconds), ThresholdSource.PERSON, actor.name, reason)
        audit.record(
            actor,
            "service.slow_threshold",
            subject=service,
            team_id=service.team_id,
            reason=reason,
            detail={"from_ms": before.milliseconds if before else None, "to_ms": row.milliseconds},
        )
    return row


def accept_threshold(release: Release, *, actor: Actor, reason: str) -> SlowThreshold:
    """Take what this release has measured of stable for the service's usual speed, from its next release on.

    Raises NotAllowed, NotPossibleNow when it has measured nothing else than what is kept.
    """
    found = release.baseline.get("threshold")
    known = Threshold.from_dict(found) if found else None
    if known is None or not known.is_held or known.measured_ms is None:
        raise NotPossibleNow(_("There is no other threshold to accept."))
    return set_slow_threshold(release.service, actor=actor, milliseconds=known.measured_ms, reason=reason)


def _keep(
    service: Service,
    milliseconds: float,
    source: ThresholdSource,
    by: str,
    reason: str,
    release: Release | None = None,
    requests: int = 0,
) -> SlowThreshold:
    return SlowThreshold.objects.create(
        service=service,
        release=release,
        milliseconds=milliseconds,
        source=source,
        requests=requests,
        by=by,
        reason=reason,
        at=kernel.clock(),
    )
