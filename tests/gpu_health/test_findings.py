"""What machines report is stored once, judged at once, and shown to those who may see the machine."""

import pytest

from accounts.actors import of_user
from accounts.models import User
from common import events
from gpu_health import metrics
from gpu_health.events import FindingEnded, FindingOpened
from gpu_health.models import Finding, StoredReading
from gpu_health.services.findings import close_finding
from tests import cast
from tests.gpu_health.conftest import Machine


def test_a_report_is_stored_once_and_opens_a_finding(machine: Machine) -> None:
    entry = machine.entry("xid.79", "boot/1")

    first, again = machine.report(entry), machine.report(entry)

    assert first.json() == {"stored": 1, "known": 0, "refused": []}
    assert again.json() == {"stored": 0, "known": 1, "refused": []}
    finding = Finding.objects.get()
    assert (finding.outcome, finding.ladder, finding.drain) == (
        "propose",
        ["reboot", "power_cycle", "replace"],
        "node",
    )
    assert (finding.device, finding.raw, finding.count) == ("0000:9b:00", "line boot/1", 1)


def test_what_is_no_reading_is_refused_and_the_others_are_stored(machine: Machine) -> None:
    good, bad = machine.entry("xid.48", "boot/2"), machine.entry("Xid 48", "boot/3")
    nameless = machine.entry("xid.48", "")

    answer = machine.report(bad, good, nameless).json()

    assert answer["stored"] == 1
    assert [refusal["entry"] for refusal in answer["refused"]] == [0, 2]
    assert "origin is missing" in answer["refused"][1]["reason"]


def test_only_the_agent_of_a_machine_reports_and_only_of_a_machine_that_is_there(
    machine: Machine, operator: User
) -> None:
    assert cast.api(operator).post("gpu-health/readings/", {"readings": []}).status_code == 403
    machine.node.delete()
    assert machine.report(machine.entry("xid.48", "boot/2")).status_code == 409


def test_a_fault_that_nobody_knows_alerts(machine: Machine) -> None:
    machine.sees(machine.entry("xid.4711", "boot/1"))

    finding = Finding.objects.get()
    assert (finding.outcome, finding.rule, finding.ladder) == ("alert", "", ["alert"])


def test_what_is_to_be_ignored_is_stored_and_opens_nothing(machine: Machine) -> None:
    machine.sees(machine.entry("xid.43", "boot/1"), machine.entry("gpu.identity", "boot/2", kind="fact"))

    assert StoredReading.objects.count() == 2
    assert not Finding.objects.exists()


def test_a_second_fault_within_the_window_changes_the_finding(machine: Machine) -> None:
    machine.sees(machine.entry("xid.31", "boot/1", seconds_ago=3_600))
    assert Finding.objects.get().ladder == ["restart_app"]

    machine.sees(machine.entry("xid.31", "boot/2"))

    finding = Finding.objects.get()
    assert (finding.count, finding.ladder[0], finding.severity) == (2, "field_diagnostic", "critical")


def test_a_condition_that_is_false_again_clears_its_finding(machine: Machine) -> None:
    machine.sees(machine.entry("kernel.deadlock", "c/1", gpu_bus_id="", source="node_condition"))
    machine.sees(
        machine.entry("kernel.deadlock", "c/2", gpu_bus_id="", source="node_condition", kind="cleared")
    )

    assert [row.state for row in Finding.objects.all()] == ["cleared"]


def test_what_a_closed_finding_counted_counts_for_no_other(machine: Machine, operator: User) -> None:
    machine.sees(machine.entry("xid.31", "boot/1"), machine.entry("xid.31", "boot/2"))
    answer = cast.api(operator).post(
        f"gpu-health/findings/{Finding.objects.get().pk}/close/", {"reason": "reseated"}
    )
    assert (answer.status_code, answer.json()["state"], answer.json()["closed_by"]) == (200, "closed", "olga")

    machine.sees(machine.entry("xid.31", "boot/3"))

    opened = Finding.objects.get(state="open")
    assert (opened.count, opened.ladder) == (1, ["restart_app"])


def test_a_finding_is_closed_once_and_by_those_who_operate_the_fleet(
    machine: Machine, operator: User
) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))
    finding = Finding.objects.get()
    viewer, stranger = cast.person("vera", serving="viewer"), cast.person("sam", other="operator")
    path = f"gpu-health/findings/{finding.pk}/close/"

    assert cast.api(stranger).post(path, {"reason": "x"}).status_code == 404
    assert cast.api(viewer).post(path, {"reason": "x"}).status_code == 403
    assert cast.api(operator).post(path, {"reason": "x"}).status_code == 200
    assert cast.api(operator).post(path, {"reason": "x"}).status_code == 409


def test_others_hear_of_a_finding_when_it_opens_and_when_it_ends(
    machine: Machine, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    monkeypatch.setattr(events, "publish", heard.append)
    machine.sees(machine.entry("xid.79", "boot/1"))
    machine.sees(machine.entry("xid.79", "boot/2"))
    finding = Finding.objects.get()
    close_finding(actor=of_user(operator), finding=finding, reason="replaced")

    ours = [event for event in heard if isinstance(event, FindingOpened | FindingEnded)]
    assert ours == [FindingOpened(finding.pk), FindingEnded(finding.pk)]


def test_findings_are_listed_and_shown(machine: Machine, operator: User) -> None:
    machine.sees(machine.entry("xid.79", "boot/1"))
    finding = Finding.objects.get()
    api = cast.api(operator)
    browser = cast.client_of(operator)

    listed = api.get("gpu-health/findings/?severity=fatal&q=9b").json()["results"]
    assert [row["title"] for row in listed] == ["Xid 79: GPU has fallen off the bus"]
    assert b"fallen off the bus" in browser.get("/gpu-health/").content
    shown = browser.get(f"/gpu-health/findings/{finding.pk}/").content.decode()
    assert "RESTART_BM" in shown
    assert "line boot/1" in shown
    assert (
        cast.client_of(cast.person("sam", other="viewer"))
        .get(f"/gpu-health/findings/{finding.pk}/")
        .status_code
        == 404
    )


def test_lines_that_could_not_be_read_are_counted_and_told(machine: Machine) -> None:
    machine.sees(*(machine.entry("unread.xid", f"boot/{number}") for number in range(3)))

    finding = Finding.objects.get()
    assert (finding.count, finding.outcome) == (3, "record")
    samples = {metric.name: metric.samples for metric in metrics.findings()}
    assert [sample.value for sample in samples["slipway_gpu_unread_lines"]] == [3.0]
