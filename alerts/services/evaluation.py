"""Turns what checks find into alerts: begins, fires, silences and resolves them, and tells of groups once."""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.db import transaction
from django.utils.translation import gettext_noop

from alerts.checks import checks
from alerts.events import AlertsFired, AlertsResolved
from alerts.models import AlertGroup, AlertSilence, DisabledCheck, RaisedAlert
from alerts.states import OPEN, AlertState
from clusters.models import Cluster
from common import clock, events
from common.alert_checks import AlertCheck, AlertFinding
from common.live.touch import touch
from releases.models import Service

logger = logging.getLogger(__name__)

GROUPED_BY = ("service", "deployment", "cluster")
"""Alerts of one check that agree in these labels are told of together."""
MOST_OF_A_CHECK = 1_000
"""Findings that become alerts of their own; more say nothing new."""
TOLD_AGAIN_AFTER = timedelta(minutes=5)
"""A group that grew is told of again, at most so often."""
FAILED = gettext_noop("The check failed; its alerts stay as they were.")


@dataclass(frozen=True, slots=True)
class CheckResults:
    findings: Sequence[tuple[AlertCheck, Sequence[AlertFinding]]]
    problems: Mapping[str, str] = field(default_factory=dict)
    """By the name of a check that failed."""


def make_checks() -> CheckResults:
    """Make every check that is on; one that fails keeps none of the others from being made."""
    off = set(DisabledCheck.objects.values_list("check_name", flat=True))
    findings, problems = [], {}
    for name, check in checks().items():
        if name in off:
            continue
        try:
            found = list(check.find())
        except Exception as error:
            logger.exception("The check %s failed", name)
            problems[name] = f"{FAILED} ({type(error).__name__})"
        else:
            findings.append((check, found[:MOST_OF_A_CHECK]))
    return CheckResults(findings, problems)


def apply_results(results: CheckResults) -> None:
    """Bring the alerts in line with what the checks found."""
    now = clock.now()
    owners = _Owners()
    with transaction.atomic():
        before = {row.key: row for row in RaisedAlert.objects.unresolved().filter(source="slipway")}
        seen: set[str] = set()
        for check, findings in results.findings:
            for finding in findings:
                key = digest(check.name, finding.labels)
                if key in seen:
                    continue
                seen.add(key)
                if key not in before:
                    before[key] = _begin(check, finding, key, owners, now)
                elif before[key].value != finding.value:
                    before[key].value = finding.value
                    before[key].save(update_fields=["value"])
        over = [
            row for row in before.values() if row.key not in seen and row.check_name not in results.problems
        ]
        resolve_alerts(over, now)
        outside = RaisedAlert.objects.unresolved().exclude(source="slipway")
        resolve_alerts(outside.filter(ends_at__lte=now), now)
        settle_states()


def _begin(
    check: AlertCheck, finding: AlertFinding, key: str, owners: "_Owners", now: datetime
) -> RaisedAlert:
    team_id, address = owners.of(finding)
    return begin_alert(
        key=key,
        check_name=check.name,
        severity=check.severity,
        labels=dict(finding.labels),
        team_id=team_id,
        address=address,
        value=finding.value,
        summary=finding.summary,
        began_at=now,
    )


def begin_alert(
    *, check_name: str, team_id: int | None, labels: dict[str, str], severity: str, **columns: Any
) -> RaisedAlert:
    """Make an alert, pending until `settle_states` looks at it, in the caller's transaction."""
    shared = {name: labels[name] for name in GROUPED_BY if name in labels}
    group, _ = AlertGroup.objects.get_or_create(
        key=digest(check_name, {**shared, "team": str(team_id)}),
        defaults={
            "check_name": check_name,
            "labels": shared,
            "team_id": team_id,
            "severity": severity,
        },
    )
    return RaisedAlert.objects.create(
        group=group, check_name=check_name, team_id=team_id, labels=labels, severity=severity, **columns
    )


def settle_states() -> None:
    """Set the state of every unresolved alert by its age, its silences and who looks after it."""
    now = clock.now()
    silences, ours = list(AlertSilence.objects.active()), checks()
    with transaction.atomic():
        changed = False
        for row in RaisedAlert.objects.unresolved():
            check = ours.get(row.check_name) if row.source == "slipway" else None
            if row.state == AlertState.PENDING and check and now - row.began_at < check.lasts:
                continue
            until = max(
                (one.ends_at for one in silences if one.covers(row.matchable, row.team_id)), default=None
            )
            state = AlertState.FIRING
            if until:
                state = AlertState.SILENCED
            elif row.acknowledged_at:
                state = AlertState.ACKNOWLEDGED
            if (state, until) != (row.state, row.silenced_until):
                changed = True
                RaisedAlert.objects.filter(pk=row.pk).update(
                    state=state, silenced_until=until, fired_at=row.fired_at or now
                )
        if changed:
            touch("changes", "alerts")
        _tell_of_groups(now)


def resolve_alerts(rows: Iterable[RaisedAlert], now: datetime) -> None:
    """End them; those that never fired leave no trace."""
    rows = list(rows)
    if not rows:
        return
    fired = [row.pk for row in rows if row.state != AlertState.PENDING]
    RaisedAlert.objects.filter(pk__in=[row.pk for row in rows], state=AlertState.PENDING).delete()
    RaisedAlert.objects.filter(pk__in=fired).update(state=AlertState.RESOLVED, resolved_at=now)
    touch("changes", "alerts")


def _tell_of_groups(now: datetime) -> None:
    """Publish each group that began to fire, grew, or is over."""
    firing: dict[int, list[datetime]] = defaultdict(list)
    rows = RaisedAlert.objects.filter(state=AlertState.FIRING, fired_at__isnull=False)
    for group_id, fired_at in rows.values_list("group", "fired_at"):
        firing[group_id].append(fired_at or now)
    for group in AlertGroup.objects.filter(pk__in=firing):
        is_larger = group.told_at is not None and max(firing[group.pk]) > group.told_at
        if group.told_at is None or (is_larger and now - group.told_at >= TOLD_AGAIN_AFTER):
            AlertGroup.objects.filter(pk=group.pk).update(told_at=now)
            events.publish(AlertsFired(group.pk))
    still_open = RaisedAlert.objects.filter(state__in=OPEN).values("group")
    for pk in (
        AlertGroup.objects.exclude(told_at=None).exclude(pk__in=still_open).values_list("pk", flat=True)
    ):
        AlertGroup.objects.filter(pk=pk).update(told_at=None)
        events.publish(AlertsResolved(pk))


def digest(name: str, labels: Mapping[str, str]) -> str:
    text = orjson.dumps([name, dict(labels)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()


class _Owners:
    """Teams and pages of the services and clusters that labels name, read once."""

    def __init__(self) -> None:
        self._services: Mapping[str, int] | None = None
        self._clusters: Mapping[str, int | None] | None = None

    def of(self, finding: AlertFinding) -> tuple[int | None, str]:
        team_id, address = finding.team_id, finding.address
        if name := finding.labels.get("service"):
            if self._services is None:
                self._services = dict(Service.objects.values_list("name", "team_id"))
            if name in self._services:
                return team_id or self._services[name], address or f"/services/{name}/"
        if name := finding.labels.get("cluster"):
            if self._clusters is None:
                self._clusters = dict(Cluster.objects.values_list("name", "team_id"))
            if name in self._clusters:
                return team_id or self._clusters[name], address or f"/fleet/clusters/{name}/"
        return team_id, address
