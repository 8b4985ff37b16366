"""Named reads of alerts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from alerts.checks import checks, title_of
from alerts.models import (
    AlertGroup,
    AlertGroupRows,
    AlertRows,
    AlertSilence,
    AlertSilenceRows,
    DisabledCheck,
    RaisedAlert,
)
from alerts.states import OPEN, AlertState
from common import clock
from common.actor import Actor
from common.alert_checks import AlertCheck


def alerts_for(actor: Actor) -> AlertRows:
    """Return the alerts that the actor may see; pending ones are left out."""
    return RaisedAlert.objects.for_actor(actor).exclude(state=AlertState.PENDING).select_related("team")


def open_at(actor: Actor, address: str) -> Sequence[RaisedAlert]:
    """Return open alerts about the thing whose page this is, or of its parts, the worst first."""
    rows = alerts_for(actor).open().filter(address=address)
    return list(rows.order_by("severity", "pk")[:20])


def groups_for(actor: Actor) -> AlertGroupRows:
    """Return the groups of open alerts that the actor may see."""
    return AlertGroup.objects.for_actor(actor).open().select_related("team")


def silences_for(actor: Actor) -> AlertSilenceRows:
    return AlertSilence.objects.for_actor(actor).filter(ends_at__gt=clock.now()).select_related("team")


@dataclass(frozen=True, slots=True)
class GroupedAlerts:
    """Open alerts of one group, as one line."""

    title: str
    alerts: Sequence[RaisedAlert]

    @property
    def first(self) -> RaisedAlert:
        return self.alerts[0]

    @property
    def url(self) -> str:
        return (
            f"/alerts/{self.first.pk}/" if len(self.alerts) == 1 else f"/alerts/groups/{self.first.group_id}/"
        )

    @property
    def is_quiet(self) -> bool:
        """Whether somebody looks after all of them."""
        return all(alert.state != AlertState.FIRING for alert in self.alerts)


def grouped(rows: Iterable[RaisedAlert]) -> list[GroupedAlerts]:
    """Return the alerts by group: what fires first, then the worst, then the longest."""
    found: dict[int, list[RaisedAlert]] = {}
    for row in rows:
        found.setdefault(row.group_id, []).append(row)
    groups = [GroupedAlerts(title_of(rows[0].check_name), rows) for rows in found.values()]
    return sorted(groups, key=lambda one: (one.is_quiet, one.first.severity, one.first.began_at))


@dataclass(frozen=True, slots=True)
class CheckStatus:
    check: AlertCheck
    disabled: DisabledCheck | None
    firing: int
    problem: str


def check_statuses(actor: Actor, problems: Mapping[str, str]) -> list[CheckStatus]:
    """Return all checks with the number of open alerts that the actor may see."""
    disabled = {row.check_name: row for row in DisabledCheck.objects.all()}
    names = alerts_for(actor).filter(state__in=OPEN).values_list("check_name", flat=True)
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [
        CheckStatus(check, disabled.get(name), counts.get(name, 0), problems.get(name, ""))
        for name, check in sorted(checks().items())
    ]
