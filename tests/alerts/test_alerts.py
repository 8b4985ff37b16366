"""Alerts from the first look that finds something wrong until it is over, and what people do meanwhile."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from accounts.models import User, WebhookEvent
from accounts.services.webhooks import create_webhook
from alerts.checks import checks
from alerts.models import AlertEvaluation, AlertGroup, RaisedAlert
from alerts.services import care
from alerts.services.evaluation import apply_results, begin_alert, make_checks, settle_states
from common.alert_checks import AlertCheck, AlertFinding
from common.alert_rules import rule_of
from common.declared import manifests
from common.errors import NotAllowed
from common.models import DiskCondition
from common.reconcile import kernel
from tests.cast import SYSTEM, api, client_of, person, team

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def admin() -> User:
    return person("root", superuser=True)


def disk(state: str = "full", host: str = "box") -> DiskCondition:
    return DiskCondition.objects.create(host=host, path="/var", state=state)


def look() -> None:
    apply_results(make_checks())


def states() -> list[str]:
    rows = RaisedAlert.objects.exclude(check_name="SlipwayRowsOverdue")  # of the tests' own rows
    return list(rows.order_by("pk").values_list("state", flat=True))


def test_what_is_wrong_is_pending_first_then_fires_and_is_resolved_when_it_ends() -> None:
    condition = disk("low")
    look()
    assert states() == ["pending"]
    settle_states()  # as when somebody acknowledges or silences another one
    assert states() == ["pending"]
    RaisedAlert.objects.update(began_at=timezone.now() - timedelta(minutes=2))
    look()
    assert states() == ["firing"]
    condition.delete()
    look()
    assert states() == ["resolved"]
    disk("low")
    look()
    DiskCondition.objects.all().delete()
    look()
    assert states() == ["resolved"], "one that ended before it fired left a trace"


def test_the_row_that_evaluates_alerts_raises_them_by_itself() -> None:
    disk()
    AlertEvaluation.objects.update(next_at="2020-01-01T00:00:00Z")
    kernel.sweep()
    assert states() == ["firing"]
    row = AlertEvaluation.objects.get()
    assert row.evaluated_at
    assert not row.problems


def test_an_acknowledged_alert_stays_open_and_a_silenced_one_fires_again_after_its_end(admin: User) -> None:
    disk()
    look()
    client = api(admin)
    pk = RaisedAlert.objects.get(check_name__in=("SlipwayDiskFull", "NodeDown")).pk
    answer = client.post(f"alerts/{pk}/acknowledge/", {"reason": "On it."})
    assert (answer.json()["state"], answer.json()["acknowledged_by"]) == ("acknowledged", "root")
    answer = client.post(f"alerts/{pk}/silence/", {"hours": 1, "reason": "A test."})
    assert (answer.status_code, answer.json()["state"]) == (200, "silenced")
    silence = client.get("alert-silences/").json()["results"][0]
    assert client.delete(f"alert-silences/{silence['id']}/").status_code == 204
    assert client.get(f"alerts/{pk}/").json()["state"] == "acknowledged"


def test_a_silence_covers_those_with_all_of_its_labels_and_no_others(admin: User) -> None:
    disk(host="a")
    disk(host="b")
    ends_at = timezone.now() + timedelta(hours=1)
    care.create_silence(actor=of_user(admin), labels={"host": "a"}, ends_at=ends_at, reason="Moves.")
    look()
    found = {row.labels["host"]: row.state for row in RaisedAlert.objects.filter(labels__has_key="host")}
    assert found == {"a": "silenced", "b": "firing"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"labels": {}}, "labels"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "ends_at"),
        ({"reason": ""}, "reason"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused_by_field(
    admin: User, change: dict[str, Any], field: str
) -> None:
    given = {"labels": {"host": "a"}, "ends_at": "2099-01-01T00:00:00Z", "reason": "x"} | change
    answer = api(admin).post("alert-silences/", given)
    assert answer.status_code == 400
    assert field in answer.json()["errors"]


def test_a_team_neither_silences_nor_acknowledges_what_is_the_installations() -> None:
    disk()
    look()
    with pytest.raises(NotAllowed):
        care.acknowledge_alert(
            RaisedAlert.objects.get(check_name__in=("SlipwayDiskFull", "NodeDown")),
            actor=of_user(person("ola", speech="operator")),
            reason="x",
        )


@pytest.fixture
def told() -> None:
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/", events=["alert.firing", "alert.resolved"])


def types() -> list[str]:
    return list(WebhookEvent.objects.order_by("pk").values_list("type", flat=True))


@pytest.mark.usefixtures("told")
def test_a_storm_is_told_once_and_so_is_its_end() -> None:
    for number in range(60):
        disk(host=f"box{number}")
    look()
    disk(host="one-more")
    look()
    assert types() == ["alert.firing"]
    assert len(states()) == 61
    DiskCondition.objects.all().delete()
    look()
    look()
    assert types() == ["alert.firing", "alert.resolved"]


@pytest.mark.usefixtures("told")
def test_nobody_is_told_of_what_is_silenced(admin: User) -> None:
    ends_at = timezone.now() + timedelta(hours=1)
    labels = {"alertname": "SlipwayDiskFull"}
    care.create_silence(actor=of_user(admin), labels=labels, ends_at=ends_at, reason="Known.")
    disk()
    look()
    assert types() == []


def test_a_check_that_fails_keeps_its_alerts_and_all_other_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise OSError("gone")

    def declared(find: Any) -> dict[str, AlertCheck]:
        fine = AlertCheck(name="Fine", title="Fine", severity="warning", find=lambda: [AlertFinding({})])
        return {"Odd": AlertCheck(name="Odd", title="Odd", severity="warning", find=find), "Fine": fine}

    monkeypatch.setattr("alerts.services.evaluation.checks", lambda: declared(lambda: [AlertFinding({})]))
    look()
    monkeypatch.setattr("alerts.services.evaluation.checks", lambda: declared(broken))
    results = make_checks()
    apply_results(results)
    assert list(results.problems) == ["Odd"]
    assert states() == ["firing", "firing"]


def test_a_check_that_is_off_raises_nothing_and_ends_what_it_raised(admin: User) -> None:
    disk()
    look()
    client = api(admin)
    assert client.patch("alert-checks/SlipwayDiskFull/", {"is_on": False}).status_code == 400
    answer = client.patch("alert-checks/SlipwayDiskFull/", {"is_on": False, "reason": "Known."})
    assert answer.json()["is_on"] is False
    look()
    assert states() == ["resolved"]
    assert client.patch("alert-checks/Nothing/", {"is_on": True}).status_code == 404


SENT = {
    "status": "firing",
    "labels": {"alertname": "NodeDown", "severity": "critical", "instance": "n1"},
    "annotations": {"summary": "n1 is down."},
    "startsAt": "2026-11-20T08:00:00Z",
    "endsAt": "0001-01-01T00:00:00Z",
}


def test_alerts_of_an_alertmanager_come_in_fire_and_are_resolved() -> None:
    client = api(person("ola", speech="operator"))
    path = "alertmanager/webhook/?team=speech"
    assert client.post(path, {"version": "4", "alerts": [SENT, SENT]}).json() == {"taken": 2}
    shown = client.get("alertmanager/api/v2/alerts/").json()
    assert [one["labels"]["alertname"] for one in shown] == ["NodeDown"]
    assert shown[0]["status"]["state"] == "active"
    assert shown[0]["annotations"]["summary"] == "n1 is down."
    client.post(path, {"alerts": [{**SENT, "status": "resolved"}]})
    assert states() == ["resolved"]


def test_an_outside_alert_that_is_not_sent_again_ends_by_itself() -> None:
    client = api(person("ola", speech="operator"))
    ends = (timezone.now() + timedelta(minutes=4)).isoformat()
    client.post("alertmanager/api/v2/alerts/?team=speech", [{**SENT, "endsAt": ends}])
    look()
    assert states() == ["firing"]
    RaisedAlert.objects.update(ends_at=timezone.now() - timedelta(seconds=1))
    look()
    assert states() == ["resolved"]


def test_amtool_silences_by_equalities_alone() -> None:
    client = api(person("ola", speech="operator"))
    path = "alertmanager/api/v2/silences/?team=speech"
    now = timezone.now()
    given = {
        "matchers": [{"name": "alertname", "value": "NodeDown", "isRegex": False, "isEqual": True}],
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "comment": "Known.",
    }
    made = client.post(path, given).json()["silenceID"]
    client.post("alertmanager/webhook/?team=speech", {"alerts": [SENT]})
    assert client.get("alertmanager/api/v2/alerts/").json()[0]["status"]["silencedBy"] == [made]
    assert client.get(f"alertmanager/api/v2/silence/{made}/").json()["status"]["state"] == "active"
    regex = {**given, "matchers": [{"name": "a", "value": ".*", "isRegex": True}]}
    assert client.post(path, regex).status_code == 400
    assert client.post("alertmanager/webhook/?team=speech", {"alerts": [{"labels": {}}]}).status_code == 400


def test_an_alert_stands_on_the_page_of_what_it_is_about(admin: User) -> None:
    disk()
    look()
    RaisedAlert.objects.update(address="/services/chat/")
    client = client_of(admin)
    told = client.get("/alerts/here/", headers={"HX-Current-URL": "http://testserver/services/chat/"})
    assert (
        f"/alerts/{RaisedAlert.objects.get(check_name__in=('SlipwayDiskFull', 'NodeDown')).pk}/"
        in told.content.decode()
    )
    elsewhere = client.get("/alerts/here/", headers={"HX-Current-URL": "http://testserver/services/other/"})
    assert "/alerts/" not in elsewhere.content.decode()


def test_people_look_after_alerts_on_their_pages(admin: User) -> None:
    disk()
    look()
    row = RaisedAlert.objects.get(check_name__in=("SlipwayDiskFull", "NodeDown"))
    client = client_of(admin)
    for path in ("/alerts/", f"/alerts/{row.pk}/", "/alerts/history/?state=open", "/alerts/checks/"):
        assert client.get(path).status_code == 200, path
    client.post(f"/alerts/{row.pk}/acknowledge/", {"reason": ""})
    client.post(f"/alerts/{row.pk}/silence/", {"reason": "Known.", "hours": "4"})
    row.refresh_from_db()
    assert (row.acknowledged_by, row.state) == ("root", "silenced")
    client.post("/alerts/checks/SlipwayDiskFull/turn/", {"reason": "Known."})
    look()
    assert states() == ["resolved"]
    client.post("/alerts/checks/SlipwayDiskFull/turn/?on=yes", {"reason": ""})
    look()
    assert states() == ["resolved", "silenced"]


def test_alerts_of_a_team_are_hidden_from_others() -> None:
    api(person("ola", speech="operator")).post("alertmanager/webhook/?team=speech", {"alerts": [SENT]})
    pk = RaisedAlert.objects.get(check_name__in=("SlipwayDiskFull", "NodeDown")).pk
    stranger = person("vic", vision="operator")
    assert api(stranger).get(f"alerts/{pk}/").status_code == 404
    assert client_of(stranger).get(f"/alerts/{pk}/").status_code == 404
    settle_states()
    assert (
        team("speech").pk == RaisedAlert.objects.get(check_name__in=("SlipwayDiskFull", "NodeDown")).team_id
    )


def test_a_condition_is_stated_once_for_the_check_and_for_prometheus() -> None:
    by_hand = {rule.name for manifest in manifests() for rule in manifest.alert_rules}
    assert not by_hand & set(checks())
    written = [found for check in checks().values() if (found := rule_of(check))]
    assert len(written) > 20
    orders = rule_of(checks()["SlipwayClusterTakesNoOrders"])
    assert orders
    assert orders.expr == "max by (cluster) (slipway_cluster_takes_orders) < 1"
    assert (orders.severity, orders.lasts) == ("warning", "2m")
    assert "{{ $labels.cluster }}" in orders.summary
    assert rule_of(checks()["SlipwayMachinePressure"]) is None, "no metric shows it"


class TestGroup:
    """Alerts of one check about one thing are one line, which people act on as one."""

    @pytest.fixture
    def group(self) -> AlertGroup:
        for number in range(16):
            labels = {"service": "chat", "worker": f"chat-{number}"}
            begin_alert(
                check_name="SlipwayWorkersLost",
                team_id=team("speech").pk,
                labels=labels,
                severity="warning",
                key=str(number),
                source="alertmanager",
            )
        settle_states()
        return AlertGroup.objects.get()

    def test_is_one_line_on_the_page_over_rest_and_opens_to_its_rows(self, group: AlertGroup) -> None:
        ola = person("ola", speech="operator")
        listed = api(ola).get("alert-groups/").json()["results"]
        assert [(one["number"], one["firing"], one["labels"]) for one in listed] == [
            (16, 16, {"service": "chat"})
        ]
        rows = api(ola).get(f"alerts/?state=open&group={group.pk}&limit=100").json()["results"]
        assert len(rows) == 16
        overview = client_of(ola).get("/alerts/").content.decode()
        assert overview.count("row-link") == 1
        opened = client_of(ola).get(f"/alerts/groups/{group.pk}/").content.decode()
        assert all(f"chat-{number} " in opened for number in range(16))
        assert client_of(person("eve", vision="admin")).get(f"/alerts/groups/{group.pk}/").status_code == 404

    def test_is_acknowledged_and_silenced_as_one_with_those_that_join_it(self, group: AlertGroup) -> None:
        ola = person("ola", speech="operator")
        client_of(ola).post(f"/alerts/groups/{group.pk}/acknowledge/", {"reason": "On it."})
        assert set(states()) == {"acknowledged"}
        api(ola).post(f"alert-groups/{group.pk}/silence/", {"hours": 1, "reason": "A load test."})
        begin_alert(
            check_name="SlipwayWorkersLost",
            team_id=team("speech").pk,
            labels={"service": "chat", "worker": "new"},
            severity="warning",
            key="new",
            source="alertmanager",
        )
        settle_states()
        assert states() == ["silenced"] * 17
        RaisedAlert.objects.update(state="resolved")
        assert api(ola).post(f"alert-groups/{group.pk}/acknowledge/", {}).status_code == 404
        assert client_of(ola).get(f"/alerts/groups/{group.pk}/").status_code == 302
