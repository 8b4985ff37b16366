"""The review shows benchmarks of the candidate and of stable, where both were measured alike."""

import re
from collections.abc import Sequence

import pytest

from accounts.models import User
from benchmarks.models import Benchmark, BenchmarkCell, BenchmarkFigure, BenchmarkRun
from benchmarks.services import create_benchmark
from benchmarks.states import BenchmarkState, RunState
from tests.benchmarks.conftest import SCENARIO
from tests.cast import client_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

SLOW, FAST = (400.0, 410.0, 395.0, 405.0, 402.0), (200.0, 205.0, 198.0, 203.0, 201.0)


def measured(scene: Scene, version: str, ttft: Sequence[float], *, token_seconds: float = 0.001) -> Benchmark:
    """A finished benchmark of one version; at its lower rate both versions are as fast."""
    row = create_benchmark(
        actor=scene.requester,
        team=scene.team,
        name=f"{version}-{token_seconds}",
        cluster="local",
        scenario={**SCENARIO, "rates": [1, 8]},
        spec={
            "versions": [f"story:{version}"],
            "repeats": len(ttft),
            "space": {"engines": ["echo"], "parameters": {"token_seconds": [token_seconds]}},
        },
    )
    cell = BenchmarkCell.objects.get(benchmark=row)
    for repeat, value in enumerate(ttft, 1):
        run = BenchmarkRun.objects.create(
            benchmark=row, cell=cell, repeat=repeat, position=100 + repeat, state=RunState.VALID
        )
        figures = [
            (0, 1.0, "ttft_p95", "ms", 50.0),
            (1, 8.0, "ttft_p95", "ms", value),
            (1, 8.0, "output_rate", "tokens/s", 90.0 + repeat),
        ]
        BenchmarkFigure.objects.bulk_create(
            BenchmarkFigure(
                run=run, window=window, rate=rate, name=name, unit=unit, value=found, is_valid=True
            )
            for window, rate, name, unit, found in figures
        )
    Benchmark.objects.filter(pk=row.pk).update(state=BenchmarkState.FINISHED)
    return row


def review(scene: Scene) -> str:
    page = client_of(User.objects.get(username="bo")).get(f"/releases/{scene.release.pk}/").content.decode()
    found = page[page.index('aria-label="Review"') :]
    return " ".join(re.sub(r"<[^>]+>", " ", found[: found.index("</section>")]).split())


def test_both_versions_stand_side_by_side_at_the_highest_rate_with_intervals(waiting: Scene) -> None:
    measured(waiting, "v1", FAST)
    measured(waiting, "v2", SLOW)
    page = review(waiting)
    assert "8 requests/s · v2-0.001 · v1-0.001" in page
    assert "TTFT p95 ms 402 (395–409) 201 (198–205) 2.00 (1.96–2.04) Worse" in page
    assert "Throughput tokens/s 93.0 (91.0–95.0) 93.0 (91.0–95.0) 1.00 (0.98–1.03) No significant" in page


def test_versions_that_were_measured_in_different_configurations_are_not_compared(waiting: Scene) -> None:
    measured(waiting, "v1", FAST)
    measured(waiting, "v2", SLOW, token_seconds=0.02)
    assert "TTFT" not in review(waiting)
    measured(waiting, "v2", SLOW)
    assert "TTFT" in review(waiting)
