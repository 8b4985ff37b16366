"""Critical alerts that nobody looks after yet."""

from collections.abc import Iterator

from accounts.states import Right
from alerts.models import RaisedAlert
from alerts.selectors import grouped
from alerts.states import AlertSeverity, AlertState
from common.actor import Actor
from common.pages.inbox import InboxEntry

MOST_SHOWN = 200


def critical_alerts(actor: Actor) -> Iterator[InboxEntry]:
    """Yield one entry for each group."""
    rows = RaisedAlert.objects.for_actor(actor, Right.ALERTS_WRITE).filter(
        state=AlertState.FIRING, severity=AlertSeverity.CRITICAL
    )
    for group in grouped(rows.select_related("team")[:MOST_SHOWN]):
        number = len(group.alerts)
        yield InboxEntry(
            badge=("alert_state", "firing"),
            title=group.title,
            url=group.url,
            since=group.first.began_at,
            why=", ".join(group.first.labels.values()) or group.first.summary,
            notes=(f"x {number}",) if number > 1 else (),
        )
