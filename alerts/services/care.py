"""What people do about alerts: acknowledge and silence them, turn checks off."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_everywhere, require_for_owner
from accounts.states import Right
from alerts.checks import checks
from alerts.errors import AlertIsOver, InvalidSilence
from alerts.models import AlertGroup, AlertSilence, DisabledCheck, RaisedAlert
from alerts.services.evaluation import settle_states
from alerts.states import OPEN, AlertState
from common import audit, clock
from common.actor import Actor
from common.errors import Invalid, Missing
from common.live.touch import touch

LONGEST_SILENCE = timedelta(days=90)
MOST_LABELS = 20


def acknowledge_alert(row: RaisedAlert, *, actor: Actor, reason: str = "") -> RaisedAlert:
    """Say that somebody looks after it. Raises NotAllowed, AlertIsOver."""
    require_for_owner(actor, Right.ALERTS_WRITE, row.team)
    with transaction.atomic():
        done = RaisedAlert.objects.unresolved().filter(pk=row.pk)
        if not done.update(
            acknowledged_at=clock.now(), acknowledged_by=actor.name, acknowledged_why=reason[:500]
        ):
            raise AlertIsOver(_("The alert is resolved."))
        audit.record(actor, "alert.acknowledge", subject=row, reason=reason, team_id=row.team_id)
        settle_states()
    row.refresh_from_db()
    return row


def silence_alert(row: RaisedAlert, *, actor: Actor, reason: str, hours: float = 2.0) -> AlertSilence:
    """Silence this alert, and its like when it comes back, for some hours.

    Raises NotAllowed, AlertIsOver, InvalidSilence.
    """
    if row.state == AlertState.RESOLVED:
        raise AlertIsOver(_("The alert is resolved."))
    labels = {"alertname": row.check_name, **row.labels}
    ends_at = clock.now() + timedelta(hours=hours)
    return create_silence(actor=actor, team=row.team, labels=labels, ends_at=ends_at, reason=reason)


def acknowledge_group(group: AlertGroup, *, actor: Actor, reason: str = "") -> AlertGroup:
    """Say that somebody looks after its open alerts. Raises NotAllowed, AlertIsOver."""
    require_for_owner(actor, Right.ALERTS_WRITE, group.team)
    with transaction.atomic():
        rows = group.alerts.filter(state__in=OPEN)
        changed = rows.filter(acknowledged_at=None).update(
            acknowledged_at=clock.now(), acknowledged_by=actor.name, acknowledged_why=reason[:500]
        )
        if not changed and not rows.exists():
            raise AlertIsOver(_("The alerts are resolved."))
        audit.record(
            actor,
            "alert.acknowledge",
            subject=group,
            reason=reason,
            team_id=group.team_id,
            detail={"alerts": changed},
        )
        settle_states()
    return group


def silence_group(group: AlertGroup, *, actor: Actor, reason: str, hours: float = 2.0) -> AlertSilence:
    """Silence its alerts, those that come included, for some hours. Raises NotAllowed, InvalidSilence."""
    labels = {"alertname": group.check_name, **group.labels}
    ends_at = clock.now() + timedelta(hours=hours)
    return create_silence(actor=actor, team=group.team, labels=labels, ends_at=ends_at, reason=reason)


def create_silence(
    *,
    actor: Actor,
    labels: Mapping[str, str],
    ends_at: datetime,
    reason: str,
    team: Team | None = None,
    starts_at: datetime | None = None,
) -> AlertSilence:
    """Keep the alerts that have all of these labels quiet until it ends; `team` None: of all teams.

    Raises NotAllowed, InvalidSilence.
    """
    require_for_owner(actor, Right.ALERTS_WRITE, team)
    begin = starts_at or clock.now()
    faults = {}
    if not labels or len(labels) > MOST_LABELS:
        faults["labels"] = [_("Name between one and twenty labels, such as alertname or service.")]
    if ends_at <= max(begin, clock.now()) or ends_at - begin > LONGEST_SILENCE:
        faults["ends_at"] = [_("A silence ends after its begin, in the future, within 90 days.")]
    if not reason.strip():
        faults["reason"] = [_("Say why: whoever misses the alert reads it.")]
    if faults:
        raise InvalidSilence(fields=faults)
    row = AlertSilence(
        team=team,
        labels={str(name): str(value) for name, value in labels.items()},
        starts_at=begin,
        ends_at=ends_at,
        reason=reason.strip()[:500],
        created_by=actor.name,
    )
    with transaction.atomic():
        row.save()
        audit.record(
            actor,
            "alert.silence",
            subject=row,
            reason=reason,
            team_id=row.team_id,
            detail={"labels": row.labels, "ends_at": ends_at.isoformat()},
        )
        settle_states()
    return row


def end_silence(row: AlertSilence, *, actor: Actor, reason: str = "") -> None:
    """End a silence now; what it covered fires again. Raises NotAllowed."""
    require_for_owner(actor, Right.ALERTS_WRITE, row.team)
    with transaction.atomic():
        AlertSilence.objects.filter(pk=row.pk, ends_at__gt=clock.now()).update(ends_at=clock.now())
        audit.record(actor, "alert.unsilence", subject=row, reason=reason, team_id=row.team_id)
        settle_states()


def turn_check(name: str, *, actor: Actor, on: bool, reason: str = "") -> None:
    """Turn a check on or off for the whole installation. Raises NotAllowed, Missing, Invalid."""
    require_everywhere(actor, Right.ALERTS_WRITE)
    if name not in checks():
        raise Missing(_("There is no such check."))
    if not on and not reason.strip():
        raise Invalid(fields={"reason": [_("Say why: whoever misses the alert reads it.")]})
    with transaction.atomic():
        if on:
            DisabledCheck.objects.filter(check_name=name).delete()
        else:
            DisabledCheck.objects.update_or_create(
                check_name=name,
                defaults={"reason": reason[:500], "disabled_by": actor.name, "disabled_at": clock.now()},
            )
        verb = "alert.enable_check" if on else "alert.disable_check"
        audit.record(actor, verb, subject=name, reason=reason)
        touch("changes", "alerts")
