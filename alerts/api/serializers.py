from collections.abc import Iterable, Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from alerts.checks import note_of, title_of
from alerts.models import AlertGroup, AlertSilence, RaisedAlert
from alerts.selectors import CheckStatus
from alerts.states import AlertState
from common.api.examples import example
from common.audit import MAX_REASON

ALERT = {
    "id": 12,
    "name": "SlipwayWorkerStuck",
    "title": "Worker stuck",
    "note": "No request ends: restart the worker from its page.",
    "severity": "critical",
    "state": "firing",
    "team": "speech",
    "labels": {"cluster": "local", "service": "chat", "deployment": "chat-1", "worker": "chat-1-0"},
    "summary": "",
    "value": 1.0,
    "url": "/fleet/workers/chat-1-0/",
    "source": "slipway",
    "began_at": "2026-11-20T08:00:00Z",
    "fired_at": "2026-11-20T08:00:30Z",
    "resolved_at": None,
    "acknowledged_at": None,
    "acknowledged_by": "",
    "acknowledged_why": "",
    "silenced_until": None,
}
SILENCE = {
    "id": 4,
    "team": "speech",
    "labels": {"alertname": "SlipwayWorkerStuck", "service": "chat"},
    "starts_at": "2026-11-20T08:10:00Z",
    "ends_at": "2026-11-20T10:10:00Z",
    "reason": "A load test saturates it.",
    "created_by": "olga",
}


@example(ALERT)
class AlertSerializer(serializers.ModelSerializer[RaisedAlert]):
    name = serializers.CharField(source="check_name", help_text="Name of the check; `alertname`.")
    title = serializers.SerializerMethodField(help_text="In the language of the request.")
    note = serializers.SerializerMethodField(help_text="What it means, or what to do.")
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="Owner; null: the installation."
    )
    url = serializers.CharField(source="address", help_text="Page of what it is about; may be empty.")

    class Meta:
        model = RaisedAlert
        fields = tuple(ALERT)

    def get_title(self, row: RaisedAlert) -> str:
        return title_of(row.check_name)

    def get_note(self, row: RaisedAlert) -> str:
        return note_of(row.check_name)


GROUP = {
    "id": 3,
    "name": "SlipwayWorkersLost",
    "title": "Worker lost",
    "severity": "warning",
    "state": "firing",
    "team": "speech",
    "labels": {"cluster": "local", "service": "chat", "deployment": "chat-1"},
    "number": 16,
    "firing": 14,
    "began_at": "2026-11-20T08:00:00Z",
    "url": "/alerts/groups/3/",
}


@example(GROUP)
class AlertGroupSerializer(serializers.ModelSerializer[AlertGroup]):
    name = serializers.CharField(source="check_name", help_text="Name of the check; `alertname`.")
    title = serializers.SerializerMethodField(help_text="In the language of the request.")
    state = serializers.ChoiceField(AlertState.choices, help_text="Of the alert that most needs somebody.")
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="Owner; null: the installation."
    )
    number = serializers.IntegerField(help_text="Open alerts: `GET alerts/?state=open&group=`.")
    firing = serializers.IntegerField(help_text="Those that nobody looks after.")
    began_at = serializers.DateTimeField(help_text="When the oldest of them began.")
    url = serializers.CharField(help_text="Page of the group.")

    class Meta:
        model = AlertGroup
        fields = tuple(GROUP)

    def get_title(self, row: AlertGroup) -> str:
        return title_of(row.check_name)


@example({"reason": "On it."})
class AcknowledgeSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=MAX_REASON, required=False, allow_blank=True)


@example({"hours": 2, "reason": "A load test saturates it."})
class SilenceAlertSerializer(serializers.Serializer[Any]):
    hours = serializers.FloatField(min_value=0.1, max_value=2160, default=2.0)
    reason = serializers.CharField(max_length=MAX_REASON)


@example(SILENCE)
class AlertSilenceSerializer(serializers.ModelSerializer[AlertSilence]):
    team = serializers.CharField(
        source="team.name", default=None, allow_null=True, help_text="Whose alerts; null: everybody's."
    )

    class Meta:
        model = AlertSilence
        fields = tuple(SILENCE)


@example(
    {"team": "speech", "labels": {"service": "chat"}, "ends_at": "2026-11-20T10:10:00Z", "reason": "Move."}
)
class NewAlertSilenceSerializer(serializers.Serializer[Any]):
    team = serializers.CharField(
        max_length=63, required=False, allow_null=True, help_text="Default: alerts of all teams."
    )
    labels = serializers.DictField(
        child=serializers.CharField(max_length=400),
        help_text="All of them must agree: `alertname`, `severity`, `service`, `cluster`, `worker`...",
    )
    starts_at = serializers.DateTimeField(required=False, help_text="Default: now.")
    ends_at = serializers.DateTimeField(help_text="Within 90 days.")
    reason = serializers.CharField(max_length=MAX_REASON)


CHECK = {
    "name": "SlipwayWorkerStuck",
    "title": "Worker stuck",
    "note": "No request ends: restart the worker from its page.",
    "severity": "critical",
    "lasts_seconds": 30.0,
    "is_on": True,
    "disabled_by": None,
    "reason": "",
    "open_alerts": 1,
    "problem": "",
}


@example(CHECK)
class AlertCheckSerializer(serializers.Serializer[CheckStatus]):
    name = serializers.CharField(source="check.name")
    title = serializers.CharField(source="check.title")
    note = serializers.CharField(source="check.note", allow_blank=True)
    severity = serializers.CharField(source="check.severity")
    lasts_seconds = serializers.SerializerMethodField(help_text="How long it must hold before it fires.")
    is_on = serializers.SerializerMethodField()
    disabled_by = serializers.CharField(source="disabled.disabled_by", default=None, allow_null=True)
    reason = serializers.CharField(source="disabled.reason", default="", allow_blank=True)
    open_alerts = serializers.IntegerField(source="firing")
    problem = serializers.CharField(allow_blank=True, help_text="Why it failed last; empty: it did not.")

    def get_lasts_seconds(self, status: CheckStatus) -> float:
        return status.check.lasts.total_seconds()

    def get_is_on(self, status: CheckStatus) -> bool:
        return status.disabled is None


@extend_schema_serializer(many=False)
@example({"results": [CHECK]})
class AlertChecksSerializer(serializers.Serializer[Any]):
    results = AlertCheckSerializer(many=True)


@example({"is_on": False, "reason": "The relay is being replaced."})
class CheckChangeSerializer(serializers.Serializer[Any]):
    is_on = serializers.BooleanField()
    reason = serializers.CharField(
        max_length=MAX_REASON, required=False, allow_blank=True, help_text="Required to turn a check off."
    )


def as_alertmanager(
    row: RaisedAlert, *, base_url: str, silences: Iterable[AlertSilence]
) -> Mapping[str, Any]:
    """Return the alert as Alertmanager's API v2 shows it (`gettableAlert`)."""
    updated = row.resolved_at or row.fired_at or row.began_at
    silenced_by = [str(one.pk) for one in silences if one.covers(row.matchable, row.team_id)]
    return {
        "fingerprint": row.key[:16],
        "labels": {**row.matchable, **({"team": row.team.name} if row.team else {})},
        "annotations": {
            "summary": row.summary or title_of(row.check_name),
            "description": note_of(row.check_name),
        },
        "startsAt": row.began_at.isoformat(),
        "endsAt": (row.resolved_at or row.ends_at or row.began_at).isoformat(),
        "updatedAt": updated.isoformat(),
        "generatorURL": f"{base_url}/alerts/{row.pk}/",
        "receivers": [{"name": "slipway"}],
        "status": {
            "state": "suppressed" if silenced_by else "active",
            "silencedBy": silenced_by,
            "inhibitedBy": [],
            "mutedBy": [],
        },
    }


def silence_as_alertmanager(row: AlertSilence, *, now: Any) -> Mapping[str, Any]:
    """Return the silence as Alertmanager's API v2 shows it (`gettableSilence`)."""
    state = "expired" if row.ends_at <= now else "pending" if row.starts_at > now else "active"
    return {
        "id": str(row.pk),
        "status": {"state": state},
        "updatedAt": row.created_at.isoformat(),
        "startsAt": row.starts_at.isoformat(),
        "endsAt": row.ends_at.isoformat(),
        "comment": row.reason,
        "createdBy": row.created_by,
        "matchers": [
            {"name": name, "value": value, "isRegex": False, "isEqual": True}
            for name, value in {**row.labels, **({"team": row.team.name} if row.team else {})}.items()
        ],
    }
