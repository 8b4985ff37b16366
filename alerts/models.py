from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Case, Count, Min, Q, When

from accounts.querysets import TeamOrShared
from alerts.states import OPEN, AlertSeverity, AlertState
from common import clock
from common.reconcile import Singleton


class AlertGroupRows(TeamOrShared["AlertGroup"]):
    def open(self) -> "AlertGroupRows":
        """Return the groups with open alerts, with their counts: what fires first, then the worst, then the
        longest."""

        def counted(*states: AlertState) -> Count:
            return Count("alerts", filter=Q(alerts__state__in=states))

        columns: dict[str, Any] = {
            "number": counted(*OPEN),
            "firing": counted(AlertState.FIRING),
            "acknowledged": counted(AlertState.ACKNOWLEDGED),
            "began_at": Min("alerts__began_at", filter=Q(alerts__state__in=OPEN)),
            "first_id": Min("alerts__pk", filter=Q(alerts__state__in=OPEN)),
        }
        groups = RaisedAlert.objects.open().values("group")
        rows: Any = self.filter(pk__in=groups).annotate(**columns)
        is_quiet = Case(When(firing=0, then=1), default=0)
        found: AlertGroupRows = rows.order_by(is_quiet, "severity", "began_at", "pk")
        return found


class AlertGroup(models.Model):
    """Alerts of one check about one service or cluster: told of together."""

    key = models.CharField(max_length=64, unique=True, editable=False)
    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    check_name = models.CharField(max_length=100)
    labels = models.JSONField(default=dict)
    """Those that all its alerts share."""
    severity = models.CharField(max_length=10, choices=AlertSeverity.choices)
    told_at = models.DateTimeField(null=True)
    """When the world was told of it last; None: not since it was last resolved."""

    number: int
    """Of open alerts; this and what follows are columns of `AlertGroupRows.open` alone."""
    firing: int
    acknowledged: int
    began_at: datetime
    first_id: int

    objects = AlertGroupRows.as_manager()

    def __str__(self) -> str:
        return " ".join([self.check_name, *self.labels.values()])

    @property
    def state(self) -> AlertState:
        """The state of the alert that most needs somebody."""
        if self.firing:
            return AlertState.FIRING
        return AlertState.ACKNOWLEDGED if self.acknowledged else AlertState.SILENCED

    @property
    def url(self) -> str:
        """Page of the group, or of its only open alert."""
        return f"/alerts/groups/{self.pk}/" if self.number > 1 else f"/alerts/{self.first_id}/"


class AlertRows(TeamOrShared["RaisedAlert"]):
    def open(self) -> "AlertRows":
        """Return the alerts that people see: they fire, whether or not somebody looks after them."""
        return self.filter(state__in=OPEN)

    def unresolved(self) -> "AlertRows":
        return self.exclude(state=AlertState.RESOLVED)


class RaisedAlert(models.Model):
    """A finding of a check, from the first look that found it until it is over."""

    group = models.ForeignKey(AlertGroup, on_delete=models.CASCADE, related_name="alerts")
    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    """Owner; None: the installation."""
    key = models.CharField(max_length=64, editable=False)
    """Digest of the check's name and the labels."""
    check_name = models.CharField(max_length=100)
    severity = models.CharField(max_length=10, choices=AlertSeverity.choices)
    state = models.CharField(max_length=20, choices=AlertState.choices, default=AlertState.PENDING)
    labels = models.JSONField(default=dict)
    summary = models.TextField(blank=True)
    """Words of the system that sent it; empty: one of our own checks, whose title says it."""
    value = models.FloatField(default=1.0)
    address = models.CharField(max_length=400, blank=True, db_index=True)
    """Page of what it is about."""
    source = models.CharField(max_length=20, default="slipway")
    """`slipway`, or `alertmanager`: sent by one."""
    began_at = models.DateTimeField(default=clock.now)
    fired_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)
    """When an outside alert is over unless it is sent again; None: when its check does not hold."""
    resolved_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=200, blank=True)
    acknowledged_why = models.CharField(max_length=500, blank=True)
    silenced_until = models.DateTimeField(null=True)

    objects = AlertRows.as_manager()

    class Meta:
        ordering: ClassVar = ["-pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["key"], condition=~Q(state=AlertState.RESOLVED), name="alert_open_once"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["state", "resolved_at"], name="alert_by_state")]

    def __str__(self) -> str:
        return " ".join([self.check_name, *self.labels.values()])

    @property
    def matchable(self) -> Mapping[str, str]:
        """Labels by which silences choose it."""
        return {"alertname": self.check_name, "severity": self.severity, **self.labels}


class AlertSilenceRows(TeamOrShared["AlertSilence"]):
    def active(self) -> "AlertSilenceRows":
        now = clock.now()
        return self.filter(starts_at__lte=now, ends_at__gt=now)


class AlertSilence(models.Model):
    """Keeps alerts of one team, or of all, quiet until it ends: those that have all of its labels."""

    team = models.ForeignKey("accounts.Team", on_delete=models.CASCADE, null=True, related_name="+")
    """Whose alerts; None: everybody's."""
    labels = models.JSONField(default=dict)
    starts_at = models.DateTimeField(default=clock.now)
    ends_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    created_by = models.CharField(max_length=200, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    objects = AlertSilenceRows.as_manager()

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in sorted(self.labels.items()))

    def covers(self, labels: Mapping[str, Any], team_id: int | None) -> bool:
        return self.team_id in (None, team_id) and self.labels.items() <= labels.items()


class DisabledCheck(models.Model):
    """A check that people turned off."""

    check_name = models.CharField(max_length=100, unique=True)
    reason = models.CharField(max_length=500, blank=True)
    disabled_by = models.CharField(max_length=200)
    disabled_at = models.DateTimeField(default=clock.now)

    def __str__(self) -> str:
        return self.check_name


class AlertEvaluation(Singleton):
    """Makes all checks every few seconds."""

    problems = models.JSONField(default=dict)
    """By the name of a check that failed: why."""
    evaluated_at = models.DateTimeField(null=True)

    class Meta(Singleton.Meta):
        pass

    def __str__(self) -> str:
        return "evaluation of alerts"
