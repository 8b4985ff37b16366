"""The statistics on their page, over REST, as CSV and for Prometheus; and who sets prices."""

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from accounts.states import Role
from clusters.models import Gpu
from gpu_health import metrics
from gpu_health.incident_statistics import StatisticsQuery, statistics
from gpu_health.models import Incident, IncidentEntry
from gpu_health.statistics.cases import StatisticsWindow
from tests import cast
from tests.gpu_health.conftest import Machine
from tests.gpu_health.healing import Ward
from tests.slipway.conftest import Terminal
from tests.slipway.conftest import terminal as terminal

pytestmark = pytest.mark.django_db
H100 = "NVIDIA H100 80GB HBM3"
PAGE = "/gpu-health/statistics/"


@pytest.fixture
def root(db: None) -> User:
    return cast.person("root", superuser=True)


def past(machine: Machine, fault: str = "xid.79", *, hours_ago: float = 30, hours_out: float = 2) -> Incident:
    """An incident that is over, with its timeline."""
    began = timezone.now() - timedelta(hours=hours_ago)
    back = began + timedelta(hours=hours_out, seconds=10)
    row = Incident.objects.create(
        node=machine.node,
        pool="gpus/default",
        fault=fault,
        gpu_model=H100,
        gpu_count=8,
        severity="fatal",
        ladder=["reboot"],
        drain="node",
        verification="check_job",
        state="closed",
        acts=1,
        first_at=began,
        opened_at=began + timedelta(seconds=4),
        returned_at=back,
        ended_at=back + timedelta(minutes=10),
    )
    for state, at in (("quarantined", began + timedelta(seconds=10)), ("watching", back)):
        IncidentEntry.objects.create(incident=row, at=at, state=state, actor="gpu-health", words=state)
    return row


def equip(machine: Machine, *, days: int = 60) -> None:
    machine.node.created_at = timezone.now() - timedelta(days=days)
    machine.node.save(update_fields=["created_at"])
    for index in range(8):
        Gpu.objects.create(
            cluster=machine.node.cluster, node=machine.node, uuid=f"GPU-{index}", index=index, name=H100
        )


def test_an_incident_knows_what_its_machine_loses(machine: Machine) -> None:
    equip(machine)
    machine.sees(machine.entry("xid.79", "boot/1"))

    opened = Incident.objects.get()
    assert (opened.gpu_model, opened.gpu_count) == (H100, 8)


def test_a_healed_machine_is_counted_with_its_times(db: None) -> None:
    ward = Ward()
    seen = ward.clock.at - timedelta(seconds=20)
    ward.finding(at=seen)
    ward.run("closed")

    found = statistics(None, StatisticsQuery(StatisticsWindow(seen, ward.clock.at))).report.total
    assert found.incidents == 1
    assert found.quarantine.mean is not None
    assert found.repair.mean is not None
    assert 15 < found.quarantine.mean < found.repair.mean


def test_rest_tells_figures_by_fault_model_and_machine(machine: Machine, operator: User, root: User) -> None:
    equip(machine)
    past(machine)
    past(machine, "xid.48", hours_ago=100, hours_out=1)
    api = cast.api(root)
    given = {"currency": "EUR", "prices": [{"gpu_model": "H100", "per_hour": 2.5}], "reason": "contract"}
    assert api.post("gpu-health/prices/change/", given).status_code == 200

    found = cast.api(operator).get("gpu-health/statistics/").json()

    assert (found["total"]["incidents"], found["total"]["lost_gpu_hours"]) == (2, 24.0)
    assert (found["currency"], found["total"]["cost"]) == ("EUR", "60.00")
    assert [(one["fault"], one["time_to_detect"]["mean"]) for one in found["faults"]] == [
        ("xid.79", 4.0),
        ("xid.48", 4.0),
    ]
    assert found["gpu_models"][0]["availability"] == pytest.approx(1 - 24 / (8 * 720))
    assert found["machines"][0]["node"] == "box-1"
    assert sum(one["lost_gpu_hours"].get("xid.79", 0) for one in found["over_time"]) == pytest.approx(16)
    narrowed = cast.api(operator).get("gpu-health/statistics/?fault=xid.48&span=7d").json()
    assert narrowed["total"]["lost_gpu_hours"] == 8.0
    assert cast.api(operator).get("gpu-health/statistics/?gpu_model=a100").json()["total"]["incidents"] == 0


@pytest.mark.parametrize(
    "query", ["span=2y", "since=yesterday", "since=2030-01-02T00:00Z&until=2030-01-01T00:00Z", "host=x"]
)
def test_a_question_that_cannot_be_meant_is_refused(operator: User, query: str) -> None:
    assert cast.api(operator).get(f"gpu-health/statistics/?{query}").status_code == 400


def test_the_page_shows_them_and_a_lemon_by_name(machine: Machine, operator: User) -> None:
    equip(machine)
    for turn in range(5):
        past(machine, hours_ago=10 + 20 * turn)

    shown = cast.client_of(operator).get(PAGE).content.decode()

    for words in ("MTTD", "Xid 79", H100, "Lemon", "box-1", "80.0", "Set GPU prices"):
        assert words in shown
    odd = (
        cast.client_of(operator).get(f"{PAGE}?since=2030-01-02T00:00&until=2020-01-01T00:00").content.decode()
    )
    assert "must begin before it ends" in odd


def test_the_page_asks_as_often_for_many_incidents_as_for_one(machine: Machine, operator: User) -> None:
    equip(machine)
    past(machine)
    browser = cast.client_of(operator)
    browser.get(PAGE)
    with CaptureQueriesContext(
        connection,
    ) as one:
        browser.get(PAGE)
    for turn in range(8):
        past(machine, f"xid.{turn + 1}", hours_ago=50 + 3 * turn)
    with CaptureQueriesContext(connection) as many:
        browser.get(PAGE)
    assert len(many) == len(one)


def test_a_stranger_counts_nothing_of_another_team(machine: Machine) -> None:
    equip(machine)
    past(machine)
    found = cast.api(cast.person("sam", vision=Role.ADMIN)).get("gpu-health/statistics/").json()

    assert (found["total"]["incidents"], found["gpu_models"]) == (0, [])


def test_the_incidents_behind_the_figures_are_a_table_for_a_spreadsheet(
    machine: Machine, operator: User
) -> None:
    past(machine)
    past(machine, "=cmd|calc")
    for text in (
        cast.client_of(operator).get(f"{PAGE}export.csv").getvalue().decode(),
        cast.api(operator).get("gpu-health/statistics/export/").content.decode(),
    ):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [(row["machine"], row["seconds_to_detect"], row["lost_gpu_hours"]) for row in rows] == [
            ("box-1", "4.000", "16.0")
        ] * 2
        assert rows[1]["fault"] == "'=cmd|calc"


def test_prometheus_reads_the_main_ones(machine: Machine) -> None:
    equip(machine)
    past(machine)

    told: dict[tuple[str, ...], float] = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics.figures()
        for sample in metric.samples
    }
    assert told["slipway_gpu_time_to_detect_seconds", "mean"] == 4.0
    assert told["slipway_gpu_lost_hours", "xid.79"] == 16.0
    assert 0.99 < told["slipway_gpu_availability_ratio", H100] < 1


def test_prices_are_set_by_administrators_who_saw_the_present_ones(operator: User, root: User) -> None:
    page = f"{PAGE}prices/"
    given = {"currency": "usd", "revision": "0", "reason": "list price", "per_hour-0": "2.49"}
    assert cast.client_of(operator).post(page, given).status_code == 422
    browser = cast.client_of(root)
    assert browser.post(page, given | {"per_hour-0": "much"}).status_code == 422
    assert browser.post(page, given | {"gpu_model-0": "H100"}).status_code == 302
    again = browser.post(page, given)
    assert (again.status_code, "changed by someone else" in again.content.decode()) == (422, True)
    found = cast.api(root).get("gpu-health/prices/").json()
    assert found["prices"] == [{"gpu_model": "H100", "cluster": "", "per_hour": "2.490000"}]


def test_the_command_line_shows_figures_and_sets_prices(
    machine: Machine, root: User, terminal: Terminal, tmp_path: Any
) -> None:
    equip(machine)
    past(machine)
    terminal.token = cast.token_of(root)

    assert terminal("gpu", "prices", "set", "2.5", "--gpu-model", "H100", "--reason", "x").status == 0
    assert terminal("gpu", "prices", "set", "none", "--cluster", "x", "--reason", "x").status == 2
    said = terminal("gpu", "stats", "--by", "model", "--csv", str(tmp_path / "all.csv"))

    assert (said.status, "USD 40.00" in said.out, H100 in said.out) == (0, True, True)
    assert "xid.79" in (tmp_path / "all.csv").read_text()
