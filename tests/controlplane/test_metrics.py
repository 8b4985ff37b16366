"""What Prometheus reads at /metrics."""

import re
from datetime import timedelta

import pytest
import yaml
from django.conf import settings
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from common import audit
from common.actor import Actor
from common.reconcile import kernel
from controlplane import health
from controlplane.health import Probe, Unhealthy
from model_store.models import CorruptBlob
from model_store.services import begin_check
from releases import metrics
from releases.models import Release
from tests.accounts.rights_matrix import Scene
from tests.clusters.world import version_of

pytestmark = pytest.mark.django_db

RELEASE = "releases.release"
QUERIES = 1 + len(kernel.kinds) + 1 + 4 + 1 + 1
"""Releases, each kind of rows, who takes them, the fleet, the store, the record; however much there is."""


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> str:
        raise Unhealthy("never heard of")

    probes = (Probe("database", lambda: "sqlite", vital=True), Probe("worker", silent, vital=False))
    monkeypatch.setattr(health.parts_health, "__defaults__", (probes,))


@pytest.fixture
def scene(tmp_path, settings) -> Scene:
    settings.SLIPWAY_IMPORT_ROOTS = (tmp_path,)
    return Scene.of_superuser()


class Reading:
    def __init__(self, client: Client) -> None:
        response = client.get("/metrics")
        assert response.status_code == 200
        self.samples = [
            sample
            for family in text_string_to_metric_families(response.content.decode())
            for sample in family.samples
        ]

    def __call__(self, name: str, **labels: str) -> float | None:
        """The value of slipway_`name` with these labels; None when there is no such."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == f"slipway_{name}" and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None


def test_the_documentation_names_every_measure_and_no_other(client: Client, scene: Scene) -> None:
    _ = scene.worker
    client.get("/healthz")
    families = text_string_to_metric_families(client.get("/metrics").content.decode())
    told = re.findall(r"`(slipway_[a-z_]+)", (settings.BASE_DIR / "docs" / "API.md").read_text())

    found = {family.name for family in families if family.name.startswith("slipway_")}
    assert found == {name.removesuffix("_total") for name in told}


def test_every_alert_watches_samples_that_there_are(client: Client, scene: Scene) -> None:
    _ = scene.worker
    read = Reading(client)
    (group,) = yaml.safe_load((settings.BASE_DIR / "docs" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        found = re.match(r"slipway_(\w+)(?:{(\w+)=\"(\w+)\"})? [=>]", rule["expr"])
        assert found, rule
        name, label, value = found.groups()
        assert read(name, **({label: value} if label else {})) is not None, rule


def test_nobody_has_to_sign_in_and_nothing_is_kept_by_a_cache(client: Client) -> None:
    answer = client.get("/metrics")

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain")
    assert "no-store" in answer["Cache-Control"]


def test_the_parts_are_up_or_down_as_readyz_knows_them(client: Client) -> None:
    read = Reading(client)

    assert (read("part_up", part="database"), read("part_up", part="worker")) == (1, 0)


def test_releases_are_counted_in_every_state_there_is(client: Client, scene: Scene) -> None:
    Release.objects.filter(pk=scene.release.pk).update(state="stuck")

    read = Reading(client)

    assert read("releases", state="stuck") == 1
    assert read("releases", state="promoted") == 0


def test_rows_are_due_overdue_or_stuck_and_the_oldest_says_for_how_long(client: Client, scene: Scene) -> None:
    now = timezone.now()
    rows = Release.objects.filter(pk=scene.release.pk)

    rows.update(next_at=now - timedelta(seconds=40))
    read = Reading(client)
    assert (read("rows_due", kind=RELEASE), read("rows_overdue", kind=RELEASE)) == (
        1,
        1,
    )
    assert 40 <= (read("oldest_due_seconds", kind=RELEASE) or 0) < 60

    rows.update(lease_until=now + timedelta(seconds=30))
    read = Reading(client)
    assert (
        read("rows_due", kind=RELEASE),
        read("oldest_due_seconds", kind=RELEASE),
    ) == (0, 0)

    rows.update(stuck_at=now)
    assert Reading(client)("rows_stuck", kind=RELEASE) == 1


def test_workers_are_counted_by_cluster_and_state(client: Client, scene: Scene) -> None:
    cluster = scene.worker.deployment.cluster.name

    read = Reading(client)

    assert read("workers", cluster=cluster, state="ready") == 1
    assert read("workers", cluster=cluster, state="failed") == 0


def test_a_cluster_is_as_busy_as_its_workers_say(
    client: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.clusters.test_fleet import beat

    cluster = scene.worker.deployment.cluster.name
    assert Reading(client)("cluster_busy_ratio", cluster=cluster) is None

    beats = {scene.worker.name: beat(busy=0.25)}
    monkeypatch.setattr("clusters.heartbeat_records.latest", lambda: beats)
    assert Reading(client)("cluster_busy_ratio", cluster=cluster) == 0.25


def test_files_of_the_store_that_are_damaged_are_counted(client: Client) -> None:
    check = begin_check(actor=Actor.system("test"))
    for number, state in enumerate(("lost", "lost", "repaired")):
        sha256 = f"{number:064x}"
        CorruptBlob.objects.create(found_by=check, sha256=sha256, size=1, detail="It is gone.", state=state)
    read = Reading(client)
    assert read("store_findings", state="lost") == 2
    assert read("store_findings", state="aside") == 0
    assert read("store_findings", state="repaired") is None


def test_the_audit_record_is_counted(client: Client) -> None:
    before = Reading(client)("audit_records_total")
    audit.record(Actor.system("test"), "test.done", subject="nothing")

    assert Reading(client)("audit_records_total") == (before or 0) + 1


def test_requests_are_counted_by_method_view_and_status(client: Client) -> None:
    def count(**labels: str) -> float:
        return Reading(client)("http_request_duration_seconds_count", **labels) or 0

    login = {"method": "GET", "view": "home", "status": "302"}
    unknown = {"method": "other", "view": "none", "status": "404"}
    before = count(**login), count(**unknown)

    client.get("/")
    client.generic("BREW", "/coffee/pots/1/")

    assert (count(**login), count(**unknown)) == (before[0] + 1, before[1] + 1)


def test_a_database_that_is_down_does_not_hide_that_it_is(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> dict[str, int]:
        raise DatabaseError("connection refused")

    monkeypatch.setattr(metrics, "count_by_state", fail)

    read = Reading(client)

    assert read("part_up", part="worker") == 0
    assert read("rows_due") is None
    assert read("http_request_duration_seconds_count") is not None


def test_a_reading_costs_the_same_however_much_there_is(
    client: Client, scene: Scene, django_assert_num_queries
) -> None:
    with django_assert_num_queries(QUERIES):
        client.get("/metrics")
    _ = scene.release, scene.worker, version_of(scene.team, "another:v1")
    with django_assert_num_queries(QUERIES):
        client.get("/metrics")
