"""Clients of Alertmanager's API v2 against our alerts: `amtool`, Prometheus; and ours, as one takes them."""

import shutil
import subprocess
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.utils import timezone

from accounts.messages import message_of
from accounts.models import WebhookEvent
from alerts.models import AlertSilence, RaisedAlert
from alerts.services.evaluation import begin_alert
from alerts.services.outside import take_alerts
from alerts.webhook_events import group_payload
from common.webhooks.formats import body_of
from tests.cast import SYSTEM, person, team, token_of

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True), pytest.mark.any_database]
WITHIN_SECONDS = 30
ALERT = {"labels": {"alertname": "NodeDown", "node": "n1", "severity": "critical"}}


@pytest.mark.skipif(shutil.which("amtool") is None, reason="there is no amtool here")
def test_amtool_lists_alerts_and_silences_them_for_their_team(live_server: Any, tmp_path: Path) -> None:
    token = token_of(person("ola", speech="operator"))
    take_alerts([ALERT], actor=SYSTEM, team=team("speech"))
    config = tmp_path / "http.yml"
    config.write_text(f"authorization:\n  credentials: {token}\n")

    def amtool(*words: str) -> Any:
        url = f"--alertmanager.url={live_server.url}/api/v1/alertmanager"
        command = ["amtool", *words, url, f"--http.config.file={config}", "--output=json"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=False)
        assert run.returncode == 0, run.stderr
        return orjson.loads(run.stdout) if run.stdout.startswith(("[", "{")) else run.stdout.strip()

    (shown,) = amtool("alert", "query", "alertname=NodeDown")
    assert shown["labels"]["team"] == "speech"
    assert amtool("alert", "query", "alertname=Other") == []

    made = amtool("silence", "add", "alertname=NodeDown", "team=speech", "--comment=Known", "--duration=1h")
    assert AlertSilence.objects.get().team == team("speech")
    assert amtool("alert", "query") == []
    (silenced,) = amtool("alert", "query", "--silenced")
    assert silenced["status"]["silencedBy"] == [made]
    assert [one["id"] for one in amtool("silence", "query", "node=n1")] == []
    assert [one["comment"] for one in amtool("silence", "query", "alertname=NodeDown")] == ["Known"]

    amtool("silence", "expire", made)
    assert [one["labels"]["node"] for one in amtool("alert", "query")] == ["n1"]


@pytest.mark.skipif(shutil.which("prometheus") is None, reason="there is no Prometheus here")
def test_prometheus_sends_its_alerts_as_to_an_alertmanager(live_server: Any, tmp_path: Path) -> None:
    token = token_of(person("root", superuser=True))
    (tmp_path / "rules.yml").write_text(
        "groups: [{name: g, interval: 1s, rules: [{alert: DiskFull, expr: 'vector(1)'}]}]"
    )
    address = live_server.url.removeprefix("http://")
    (tmp_path / "prometheus.yml").write_text(
        "global: {evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        "alerting: {alertmanagers: [{path_prefix: /api/v1/alertmanager, authorization: "
        f"{{credentials: {token}}}, static_configs: [{{targets: ['{address}']}}]}}]}}\n"
    )
    command = [
        "prometheus",
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        "--web.listen-address=127.0.0.1:0",
        "--rules.alert.resend-delay=1s",
        "--log.level=error",
    ]
    with subprocess.Popen(command) as process:
        try:
            until = time.monotonic() + WITHIN_SECONDS
            while not (found := list(RaisedAlert.objects.filter(check_name="DiskFull"))):
                assert time.monotonic() < until, "no alert came"
                assert process.poll() is None
                time.sleep(0.2)
        finally:
            process.terminate()
    assert found[0].state == "firing"


def test_an_alertmanager_is_sent_our_alerts_with_their_labels_and_an_end_and_sends_none_back(
    settings: Any,
) -> None:
    settings.SLIPWAY_PUBLIC_URL = "https://slipway.example"
    labels = {"service": "chat", "worker": "chat-1"}
    row = begin_alert(
        key="k",
        check_name="SlipwayWorkerStuck",
        team_id=team("speech").pk,
        labels=labels,
        severity="critical",
    )
    RaisedAlert.objects.filter(pk=row.pk).update(state="firing")
    (firing,) = _sent("alert.firing", row)
    (resolved,) = _sent("alert.resolved", row)
    shared = {"alertname": "SlipwayWorkerStuck", "severity": "critical", "service": "chat", "team": "speech"}
    assert firing["labels"] == resolved["labels"] == shared
    assert datetime.fromisoformat(firing["endsAt"]) > timezone.now() + timedelta(days=20), (
        "an Alertmanager takes what is not sent again, and names no end, for resolved after five minutes"
    )
    assert datetime.fromisoformat(resolved["endsAt"]) <= timezone.now()
    assert take_alerts([firing], actor=SYSTEM, team=None) == 0

    assert take_alerts([ALERT], actor=SYSTEM, team=None) == 1
    assert _sent("alert.firing", RaisedAlert.objects.get(check_name="NodeDown")) == []


def _sent(event: str, row: RaisedAlert) -> Any:
    """Return what an endpoint of the format `alertmanager` is sent."""
    told = group_payload({"group_id": row.group_id})
    assert told
    said = {"type": event, "timestamp": timezone.now().isoformat(), "data": told.data}
    happened = WebhookEvent(type=event, ids={"group_id": row.group_id}, body=orjson.dumps(said))
    return orjson.loads(body_of("alertmanager", message_of(happened, "en")))
