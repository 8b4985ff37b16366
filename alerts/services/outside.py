"""Alerts that an Alertmanager or Prometheus sends: its webhook's messages, and its API's alerts."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from accounts.models import Team
from accounts.services.rights import require_for_owner
from accounts.states import Right
from alerts.errors import InvalidAlerts
from alerts.models import RaisedAlert
from alerts.services.evaluation import begin_alert, digest, resolve_alerts, settle_states
from alerts.states import AlertSeverity
from common import clock
from common.actor import Actor

SOURCE = "alertmanager"
MOST_AT_ONCE = 500
HEARD_FOR = timedelta(hours=24)
"""An alert without an end that is not sent again for so long is over."""


def take_alerts(alerts: Sequence[Mapping[str, Any]], *, actor: Actor, team: Team | None) -> int:
    """Raise or resolve what was sent; the team owns it (None: the installation). Returns how many were taken.

    Our own alerts, which an Alertmanager that we send to sends back, are left out.

    Raises NotAllowed, InvalidAlerts.
    """
    require_for_owner(actor, Right.ALERTS_WRITE, team)
    if len(alerts) > MOST_AT_ONCE:
        raise InvalidAlerts(fields={"alerts": [_("Send at most 500 alerts at once.")]})
    now = clock.now()
    read = [_read(alert, place, now) for place, alert in enumerate(alerts) if not _is_ours(alert)]
    with transaction.atomic():
        for name, labels, summary, ends_at in read:
            key = digest(name, {**labels, "team": str(team.pk if team else None), "source": SOURCE})
            row = RaisedAlert.objects.unresolved().filter(key=key).first()
            if ends_at <= now:
                resolve_alerts([row] if row else [], now)
            elif row:
                RaisedAlert.objects.filter(pk=row.pk).update(ends_at=ends_at, summary=summary)
            else:
                severity = labels.get("severity", "")
                begin_alert(
                    key=key,
                    check_name=name,
                    labels=labels,
                    team_id=team.pk if team else None,
                    severity=severity if severity in AlertSeverity.values else AlertSeverity.WARNING,
                    summary=summary,
                    source=SOURCE,
                    began_at=now,
                    ends_at=ends_at,
                )
        settle_states()
    return len(read)


def _is_ours(alert: Mapping[str, Any]) -> bool:
    return str(alert.get("generatorURL", "")).startswith(f"{settings.SLIPWAY_PUBLIC_URL}/alerts/")


def _read(alert: Mapping[str, Any], place: int, now: datetime) -> tuple[str, dict[str, str], str, datetime]:
    """Return name, other labels, words and end of one alert. Raises InvalidAlerts."""
    labels, annotations = alert.get("labels"), alert.get("annotations") or {}
    if not isinstance(labels, dict) or not isinstance(annotations, dict) or not labels.get("alertname"):
        raise InvalidAlerts(fields={f"alerts.{place}.labels": [_("Name the alert by the label alertname.")]})
    rest = {str(name)[:100]: str(value)[:400] for name, value in list(labels.items())[:50]}
    name = rest.pop("alertname")[:100]
    summary = str(annotations.get("summary") or annotations.get("description") or "")[:2_000]
    if alert.get("status") == "resolved":
        return name, rest, summary, now
    try:
        ends_at = parse_datetime(str(alert.get("endsAt") or ""))
    except ValueError:
        ends_at = None
    # Alertmanager writes the year 1 for "no end is known".
    if ends_at is None or ends_at.tzinfo is None or ends_at.year < 2000:
        ends_at = now + HEARD_FOR
    return name, rest, summary, ends_at
