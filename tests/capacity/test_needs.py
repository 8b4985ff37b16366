"""Cards are divided by what was measured of services, and nothing that was not measured counts as zero."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.actors import of_user
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkRun, BenchmarkScenario, SystemSeries
from capacity import services
from capacity.errors import InvalidPool
from clusters.gpu_needs import measured_needs
from clusters.history import MINUTES, Measure, with_values
from clusters.models import Deployment, FleetDay
from graphs.models import Graph, TaskProfile
from tests.capacity.test_cards import BERT, Declared
from tests.cast import SYSTEM, api, client_of, person, team
from tests.clusters.world import version_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.any_database]
GIB = 1_024


def deploy(scene: Declared, name: str, **resources: Any) -> Deployment:
    return Deployment.objects.create(
        name=f"{name}-1", cluster=scene.pool.cluster, team=scene.pool.team, service=name, device="cuda",
        version=version_of(scene.pool.team, f"{name}:v1"), version_label=f"{name}:v1", engine="echo",
        replicas=1, slots=8, resources=resources,
    )  # fmt: skip


def measure(name: str, *, days_ago: int, mib: int, busy: float, minutes: int = 100) -> None:
    day = int((timezone.now() - timedelta(days=days_ago)).timestamp() // 60) // MINUTES
    columns: dict[str, tuple[Measure, int]] = {
        "busy": ("busy", round(100 * busy)), "gpu_memory": ("gpu_memory", mib // 16),
    }  # fmt: skip
    packed = {
        column: with_values(None, kind, dict.fromkeys(range(minutes), value))
        for column, (kind, value) in columns.items()
    }
    FleetDay.objects.create(subject=f"deployment:{name}-1", day=day, **packed)


@pytest.fixture
def scene() -> Declared:
    return Declared()


def test_a_card_is_divided_by_measured_memory_and_busy(scene: Declared) -> None:
    deploy(scene, "whisper")
    measure("whisper", days_ago=2, mib=18 * GIB, busy=0.4)
    measure("whisper", days_ago=3, mib=21 * GIB, busy=0.2, minutes=3)
    row = scene.set({"name": "whisper"}, BERT, dry_run=True)
    assert {one["name"]: one["profile"] for one in row.instances} == {
        "whisper": "3g.40gb", "bert": "1g.10gb",
    }  # fmt: skip
    (need,) = (
        api(person("dina", vision="developer")).get(f"capacity/pools/{scene.pool.pk}/needs/").json()["needs"]
    )
    assert need == {
        "service": "whisper", "days": 7, "minutes": 103, "memory_p95_mib": 18 * GIB,
        "memory_peak_mib": 21 * GIB, "busy_p95": 0.4, "share": 0.4, "gpus": 1, "measured_by": "workers",
    }  # fmt: skip


def test_busy_of_a_worker_on_a_slice_is_a_share_of_that_slice(scene: Declared) -> None:
    deploy(scene, "whisper", gpu_resource="nvidia.com/mig-2g.20gb")
    measure("whisper", days_ago=1, mib=9_000, busy=0.7)
    (share,) = scene.set({"name": "whisper"}, sharing="mps", dry_run=True).instances
    assert share["threads"] == 100, "alone it gets what is left"
    need = api(person("dina", vision="developer")).get(f"capacity/pools/{scene.pool.pk}/needs/").json()
    assert need["needs"][0]["share"] == pytest.approx(0.2)


@pytest.mark.parametrize("case", ["nothing", "too long ago", "not deployed", "another team's", "two cards"])
def test_a_service_that_was_not_measured_is_refused_by_name(scene: Declared, case: str) -> None:
    actor = SYSTEM
    if case != "not deployed":
        deploy(scene, "whisper", **({"gpus_per_worker": 2} if case == "two cards" else {}))
    if case == "too long ago":
        measure("whisper", days_ago=12, mib=9_000, busy=0.7)
    if case in ("another team's", "two cards"):
        measure("whisper", days_ago=1, mib=9_000, busy=0.7)
    if case == "another team's":
        Deployment.objects.update(team=team("speech"))
        actor = of_user(person("ada", vision="approver"))
    with pytest.raises(InvalidPool) as refused:
        services.set_layout(
            scene.pool, actor=actor, machine="h100s", card=0, needs=[{"name": "whisper"}], dry_run=True
        )
    assert "whisper" in refused.value.fields["needs"][0]
    if case == "too long ago":
        wide = services.set_layout(
            scene.pool,
            actor=SYSTEM,
            machine="h100s",
            card=0,
            needs=[{"name": "whisper"}],
            dry_run=True,
            days=20,
        )
        assert wide.instances


def test_a_benchmark_run_says_what_no_worker_has_said_yet(scene: Declared) -> None:
    row = deploy(scene, "whisper")
    scenario = BenchmarkScenario.objects.create(team=scene.pool.team, name="calls", content={}, digest="d")
    benchmark = Benchmark.objects.create(
        team=scene.pool.team, name="whisper", scenario=scenario, cluster=scene.pool.cluster, spec={}
    )
    cell = BenchmarkCell.objects.create(
        benchmark=benchmark, position=0, version=row.version, engine="echo", digest="c"
    )
    run = BenchmarkRun.objects.create(benchmark=benchmark, cell=cell, repeat=1, position=0, state="valid")
    series = {"gpu_memory 0": [2**30, 12 * 2**30, None], "gpu_use 0": [0.1, 0.3, 0.2]}
    SystemSeries.objects.create(run=run, content={"began": 0, "step": 1, "series": series})
    (instance,) = scene.set({"name": "whisper"}, dry_run=True).instances
    assert instance["profile"] == "3g.40gb"


def test_profiles_of_a_graphs_tasks_say_it_too(scene: Declared) -> None:
    row = deploy(scene, "whisper")
    graph = Graph.objects.create(
        team=scene.pool.team, name="whisper", version=row.version, document={}, digest="d",
        origins={"read": "v1", "speak": "v1", "old": "v2"},
    )  # fmt: skip
    for task, mib, time in (("read", 6 * GIB, 0.2), ("speak", 12 * GIB, 0.25), ("old", 30 * GIB, 0.5)):
        figures = {"card": "H100", "card_time": time, "times": [{"card_memory": mib * 2**20}]}
        TaskProfile.objects.create(
            graph=graph, task=task, option="H100", origin="v1", figures=figures, machine={}
        )
    (need,) = measured_needs(Deployment.objects.all(), days=7)
    assert (need.measured_by, need.memory_peak_mib, need.share) == ("graphs", 18 * GIB, pytest.approx(0.45))


def test_the_page_of_the_cards_shows_what_was_measured_and_takes_a_services_name(scene: Declared) -> None:
    deploy(scene, "whisper")
    deploy(scene, "silent")
    measure("whisper", days_ago=2, mib=18 * GIB, busy=0.4)
    browser = client_of(person("ada", vision="approver"))
    page = f"/capacity/{scene.pool.pk}/cards/"
    shown = browser.get(page).content.decode()
    assert "18.0\xa0GiB" in shown
    assert "not measured" in shown
    sent = {"machine": "h100s", "card": 0, "needs": "whisper", "do": "look"}
    assert "3g.40gb" in browser.post(page, sent).content.decode()
    refused = browser.post(page, {**sent, "needs": "silent"})
    assert refused.status_code == 422
    assert "silent" in refused.content.decode()
