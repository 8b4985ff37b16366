"""A running service under load: who may, how much, and when the load stops for its users' sake."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from accounts.actors import of_user
from accounts.errors import RightMissing
from benchmarks import service_guard
from benchmarks.errors import InvalidBenchmark
from benchmarks.models import Benchmark, BenchmarkRun
from benchmarks.planning import plan_benchmark
from benchmarks.service_target import ServiceTarget
from benchmarks.services import create_benchmark
from benchmarks.spec import SpecFaults, spec_of
from benchmarks.states import BenchmarkState, RunState
from clusters.models import Deployment
from clusters.services.deployments import ensure_deployment
from clusters.states import DeploymentState
from gateway.latency import BOUNDS_MS, Histogram
from gateway.models import Gateway, Route
from gateway.worker_figures import WorkerFigures
from tests.benchmarks.conftest import BenchmarkScene
from tests.cast import SYSTEM, person
from tests.clusters.world import version_of

pytestmark = pytest.mark.any_database

TARGET = {"service": "story", "ttft_ms": 400}
LOAD = {"rates": [4], "requests": 12, "input": 20, "output": 8, "warm_up_requests": 2}
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.fixture
def running(scene: BenchmarkScene, monkeypatch: pytest.MonkeyPatch) -> BenchmarkScene:
    """The scene with a service of one version, behind a route."""
    ensure_deployment(
        actor=SYSTEM, name="story-1", op_key="test:1", cluster=scene.cluster, team=scene.team,
        service="story", version=scene.version, replicas=1, slots=4, engine="echo",
    )  # fmt: skip
    scene.run_until(lambda: Deployment.objects.filter(name="story-1", state=DeploymentState.READY).exists())
    gateway = Gateway.objects.get_or_create(cluster=scene.cluster, defaults={"kind": "envoy"})[0]
    Route.objects.create(
        gateway=gateway, service="story", stable_target="story-1", stable_version="story:v1", writer=0,
        writer_turn=1, changed_at=NOON,
    )  # fmt: skip
    monkeypatch.setattr("gateway.selectors.worker_figures", lambda _service: {"stable": figures(0)})
    return scene


def begin(scene: BenchmarkScene, scenario: dict[str, Any] = LOAD, **target: Any) -> Benchmark:
    return create_benchmark(
        actor=scene.actor, team=scene.team, name="live", cluster="local", scenario=scenario,
        spec={"target": {**TARGET, **target}, "repeats": 1},
    )  # fmt: skip


def figures(ttft_ms: float, requests: int = 0) -> WorkerFigures:
    is_slow = ttft_ms > 400
    timings = {"ttft": counted(0 if is_slow else requests, requests if is_slow else 0)}
    return WorkerFigures("epoch", requests, timings=timings)


def counted(fast: int, slow: int) -> Histogram:
    """Requests of 50 ms and of 450 ms."""
    bounds = (*BOUNDS_MS, math.inf)
    return tuple((bound, (bound >= 50) * fast + (bound >= 450) * slow) for bound in bounds)


def test_a_service_is_loaded_as_it_runs_and_goes_on_running(running: BenchmarkScene) -> None:
    row = running.run_to_end(begin(running))
    assert row.state == BenchmarkState.FINISHED, [run.reason for run in BenchmarkRun.objects.all()]
    (run,) = BenchmarkRun.objects.filter(benchmark=row)
    assert (run.deployment, run.cell.version_id) == ("story-1", running.version.pk)
    assert len(running.running()) == 1, "no server was made, and none removed"
    (server,) = running.world.by_worker.values()
    assert server.asked >= 14
    assert set(server.chosen_by) == {"client"}, "no release judges the version by these requests"


def test_the_load_stops_when_the_services_own_users_wait_too_long(
    running: BenchmarkScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(10_000))
    monkeypatch.setattr(service_guard, "LOOK_BACK", timedelta(seconds=1))
    monkeypatch.setattr(
        "gateway.selectors.worker_figures",
        lambda _service: {"stable": figures(450, requests=20 * next(looks))},
    )
    row = running.run_to_end(begin(running, {**LOAD, "rates": [1], "requests": 100}))
    (run,) = BenchmarkRun.objects.filter(benchmark=row)
    assert (row.state, run.state) == (BenchmarkState.FAILED, RunState.FAILED)
    assert "TTFT of 400 ms" in run.reason
    (server,) = running.world.by_worker.values()
    assert server.asked < 60
    assert len(running.running()) == 1


def test_few_requests_are_looked_at_over_a_longer_time() -> None:
    target = ServiceTarget("story", ttft_ms=400)
    kept, _ = service_guard.judged(target, {}, {"stable": figures(450)}, NOON)
    for seconds, requests, broken in ((5, 50, False), (12, 4, False), (24, 12, True)):
        at = NOON + timedelta(seconds=seconds)
        again, said = service_guard.judged(target, kept, {"stable": figures(450, requests)}, at)
        assert bool(said) is broken
        assert again == kept or broken
    restarted = replace(figures(450, 99), epoch="another")
    assert not service_guard.judged(target, kept, {"stable": restarted}, NOON + timedelta(seconds=60))[1]


def test_a_timing_that_few_requests_have_does_not_hold_back_another() -> None:
    target = ServiceTarget("story", ttft_ms=400, tpot_ms=400, share=0.5)
    kept: dict[str, Any] = {}
    for seconds, fast, slow, broken in ((0, 0, 0, False), (20, 1000, 0, False), (40, 1000, 20, True)):
        timings = {"ttft": counted(fast, slow), "tpot": counted(1, 0)}
        now = {"stable": WorkerFigures("epoch", fast + slow, timings=timings)}
        kept, said = service_guard.judged(target, kept, now, NOON + timedelta(seconds=seconds))
        assert bool(said) is broken, "the fast ones are not counted twice"


@pytest.mark.parametrize(
    ("scenario", "target", "field"),
    [
        ({**LOAD, "rates": [1, 50]}, {}, "scenario.rates"),
        ({**LOAD, "arrivals": "concurrency", "rates": [2]}, {}, "scenario.arrivals"),
        ({**LOAD, "find_max_rate": True, "targets": {"ttft_ms": 9}}, {}, "scenario.find_max_rate"),
        (LOAD, {"service": "other"}, "target.service"),
    ],
)
def test_what_a_running_service_does_not_bear_is_refused(
    running: BenchmarkScene, scenario: dict[str, Any], target: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidBenchmark) as refused:
        begin(running, scenario, **target)
    assert field in refused.value.fields


def test_only_who_may_operate_a_service_loads_it_and_never_during_a_release(running: BenchmarkScene) -> None:
    viewer = of_user(person("vi", speech="viewer"))
    order: dict[str, Any] = {"cluster": "local", "scenario": LOAD, "spec": {"target": TARGET}}
    with pytest.raises(RightMissing):
        plan_benchmark(actor=viewer, team=running.team, **order)
    ensure_deployment(
        actor=SYSTEM, name="story-2", op_key="test:2", cluster=running.cluster, team=running.team,
        service="story", version=version_of(running.team), replicas=1, slots=4, engine="echo",
    )  # fmt: skip
    with pytest.raises(InvalidBenchmark, match="one version alone"):
        begin(running)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"target": {"service": "story"}}, "target.ttft_ms"),
        ({"target": {"service": "story", "ttft_ms": 0}}, "target.ttft_ms"),
        ({"target": {"ttft_ms": 5}}, "target.service"),
        ({"target": {**TARGET, "share": 1}}, "target.share"),
        ({"target": {**TARGET, "rate": 1}}, "target.rate"),
        ({"target": TARGET, "versions": ["story:v1"]}, "versions"),
    ],
)
def test_a_target_that_makes_no_sense_is_refused_by_its_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecFaults) as refused:
        spec_of(spec)
    assert field in refused.value.fields
    kept = spec_of({"target": TARGET})
    assert spec_of(kept.as_json()) == kept
