"""What people may do in spite of a freeze, and after a rollback by hand."""

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require
from accounts.states import Right
from common import audit, events
from common.actor import Actor
from common.reconcile import kernel
from common.sentences import joined
from freezes.errors import Frozen
from releases.errors import NotPossibleNow
from releases.events import FreezeOverridden, ServiceChanged
from releases.freezing import freeze_holding, freeze_of, in_words
from releases.models import Release, Service
from releases.states import IN_MOTION


def refuse_frozen(service: Service, *, actor: Actor, override: str) -> bool:
    """Whether a freeze is overridden by the reason given. Raises Frozen, NotAllowed."""
    held = freeze_of(service)
    if held is None:
        return False
    if not override.strip():
        raise Frozen(
            joined((in_words(held), _("Wait, or override it with a reason, if you have the right to.")))
        )
    require(actor, Right.RELEASES_OVERRIDE, service.team, service=service.name)
    return True


def override_freeze(release: Release, *, actor: Actor, reason: str) -> None:
    """Let a release that a freeze holds go on. Raises NotAllowed, NotPossibleNow when none holds it."""
    require(actor, Right.RELEASES_OVERRIDE, release.team, service=release.service.name)
    with transaction.atomic():
        release.refresh_from_db()
        if release.state not in IN_MOTION or freeze_holding(release) is None:
            raise NotPossibleNow(_("No freeze holds this release."))
        kernel.wake(
            release,
            freeze_override=reason,
            freeze_overridden_by=actor.name,
            freeze_overridden_at=kernel.clock(),
        )
        record_override(release, actor=actor, reason=reason)


def record_override(release: Release, *, actor: Actor, reason: str) -> None:
    """Call it inside the transaction that overrides."""
    audit.record(actor, "release.override", subject=release, team_id=release.team_id, reason=reason)
    events.publish(FreezeOverridden(release.pk))


def pause_automation(service: Service, *, actor: Actor) -> None:
    """Start no release by itself after a person rolled back, inside the transaction of the rollback."""
    if actor.user_id is not None:
        service.change(automation_paused_by=actor.name)
        events.publish(ServiceChanged(service.pk))


def resume_automation(service: Service, *, actor: Actor, reason: str = "") -> None:
    """Let releases start by themselves again. Raises NotAllowed, NotPossibleNow."""
    require(actor, Right.RELEASES_OPERATE, service.team, service=service.name)
    with transaction.atomic():
        service.refresh_from_db()
        if not service.automation_paused_by:
            raise NotPossibleNow(_("Automatic releases are not paused."))
        service.change(automation_paused_by="")
        audit.record(
            actor, "service.resume_automation", subject=service, team_id=service.team_id, reason=reason
        )
        events.publish(ServiceChanged(service.pk))
