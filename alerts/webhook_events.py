from typing import Any

from alerts.checks import checks
from alerts.models import AlertGroup
from alerts.states import OPEN
from common.webhooks.catalogue import EventPayload, Ids

SHOWN = 20
"""Alerts that a message names; `number` says how many there are."""


def group_payload(ids: Ids) -> EventPayload | None:
    """Describe a group with its alerts; English, as Prometheus's own alerts are."""
    group = AlertGroup.objects.filter(pk=ids["group_id"]).first()
    if group is None:
        return None
    rows = list(group.alerts.filter(state__in=OPEN)[:SHOWN])
    check = checks().get(group.check_name)
    document: dict[str, Any] = {
        "name": group.check_name,
        "severity": group.severity,
        "team": group.team.name if group.team else "",
        "labels": group.labels,
        "is_from_outside": check is None,
        "number": group.alerts.filter(state__in=OPEN).count(),
        "alerts": [
            {
                "id": row.pk,
                "state": row.state,
                "labels": row.labels,
                "summary": row.summary,
                "value": row.value,
                "url": f"/alerts/{row.pk}/",
                "began_at": row.began_at.isoformat(),
            }
            for row in rows
        ],
    }
    return EventPayload(group.team_id, {**ids, "group": document})
