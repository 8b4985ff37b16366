"""A plan may demand that a figure of a benchmark keeps a bound before the candidate gets traffic."""

from collections.abc import Sequence

import pytest

from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkFigure, BenchmarkRun
from benchmarks.services import create_benchmark
from benchmarks.states import BenchmarkState, RunState
from releases.errors import NotReleasable
from releases.events import ReleaseEnded
from releases.models import Release
from releases.services.plan import save_plan
from releases.services.release import abort
from releases.states import ReleaseState as S
from releases.subscribers import stop_benchmarks
from tests.benchmarks.conftest import SCENARIO
from tests.cast import SYSTEM
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db(transaction=True)]

SPACE = {"engines": ["echo"], "parameters": {"token_seconds": [0.001, 0.02]}}


def template(scene: Scene, **spec: object) -> Benchmark:
    """A benchmark of version 1 with two configurations, of which the second is the best."""
    row = create_benchmark(
        actor=scene.requester,
        team=scene.team,
        name="chat-latency",
        cluster="local",
        scenario=SCENARIO,
        spec={"versions": ["story:v1"], "repeats": 2, "space": SPACE, **spec},
    )
    best = BenchmarkCell.objects.get(benchmark=row, parameters={"token_seconds": 0.02})
    Benchmark.objects.filter(pk=row.pk).update(
        state=BenchmarkState.FINISHED, conclusion={"best": best.pk, "verdict": "best"}
    )
    return row


def start(scene: Scene, **step: object) -> Release:
    check = {"kind": "benchmark", "like": "chat-latency", "figure": "ttft_p95", "bound": 300, **step}
    steps = [check, {"kind": "deploy", "share_percent": 100}, {"kind": "promote"}]
    save_plan(actor=SYSTEM, team=scene.team, name="fast", body={"steps": steps})
    return scene.start(plan_name="fast")


def ordered(scene: Scene, release: Release) -> Benchmark:
    """The benchmark that the release has ordered."""
    name = f"release-{release.pk}-step-1"
    scene.run_until(lambda: Benchmark.objects.filter(name=name).exists(), seconds=30)
    return Benchmark.objects.get(name=name)


def finish(row: Benchmark, values: Sequence[float]) -> None:
    """Let its runs have measured this TTFT, in ms, at each of two rates."""
    cell = BenchmarkCell.objects.get(benchmark=row)
    for number, value in enumerate(values):
        run = BenchmarkRun.objects.create(
            benchmark=row, cell=cell, repeat=number + 1, position=100 + number, state=RunState.VALID
        )
        for window, (rate, factor) in enumerate([(1.0, 0.1), (8.0, 1.0)]):
            BenchmarkFigure.objects.create(
                run=run,
                window=window,
                rate=rate,
                name="ttft_p95",
                unit="ms",
                value=value * factor,
                is_valid=True,
            )
    Benchmark.objects.filter(pk=row.pk).update(state=BenchmarkState.FINISHED)


def test_the_candidate_is_measured_like_the_benchmark_and_goes_on_within_the_bound(scene: Scene) -> None:
    like = template(scene)
    release = start(scene)
    row = ordered(scene, release)
    cell = BenchmarkCell.objects.get(benchmark=row)
    assert (str(cell.version), cell.engine, cell.parameters) == ("story:v2", "echo", {"token_seconds": 0.02})
    assert (row.scenario_id, row.spec["repeats"]) == (like.scenario_id, 3)
    finish(row, [240.0, 250.0, 245.0])
    scene.run_until_state(S.PROMOTED)
    step = release.steps.get(index=0)
    assert (step.detail["rate"], round(step.detail["value"])) == (8.0, 245)
    assert "keeps the bound of 300" in str(step.told)


@pytest.mark.parametrize(
    ("values", "said"),
    [([340.0, 350.0, 345.0], "breaks the bound of 300"), ([200.0, 250.0, 345.0], "does not tell")],
)
def test_a_candidate_that_is_not_shown_to_be_fast_enough_fails(
    scene: Scene, values: list[float], said: str
) -> None:
    template(scene)
    release = start(scene)
    finish(ordered(scene, release), values)
    assert said in scene.run_until_state(S.FAILED).outcome


def test_a_benchmark_without_two_valid_runs_fails_the_release(scene: Scene) -> None:
    template(scene)
    release = start(scene)
    finish(ordered(scene, release), [240.0])
    assert "no ttft p95 of two valid runs" in scene.run_until_state(S.FAILED).outcome


def test_a_release_that_ends_stops_its_benchmark(scene: Scene) -> None:
    template(scene)
    release = start(scene)
    row = ordered(scene, release)
    abort(release, actor=scene.requester, reason="another one first")
    scene.run_until_state(S.ABORTED)
    stop_benchmarks(ReleaseEnded(release.pk, release.service_id, S.ABORTED))
    row.refresh_from_db()
    assert row.state == BenchmarkState.CANCELLING


def test_a_plan_whose_benchmark_cannot_be_taken_is_refused_at_the_start(scene: Scene) -> None:
    with pytest.raises(NotReleasable, match="no benchmark chat-latency"):
        start(scene)
    row = template(scene)
    Benchmark.objects.filter(pk=row.pk).update(conclusion={})
    with pytest.raises(NotReleasable, match="several configurations"):
        scene.start(plan_name="fast")
