from typing import Any

from accounts.states import Right
from benchmarks.models import Benchmark, BenchmarkLoadToken, BenchmarkRun
from benchmarks.services import create_benchmark
from benchmarks.states import RunState
from clusters.models import Cluster
from common import clock
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
from tests.clusters.world import version_of

ORDER: dict[str, Any] = {"cluster": "bench", "scenario": {}, "spec": {"versions": ["bench:v1"]}}


def _cluster(scene: Scene) -> None:
    Cluster.objects.get_or_create(name="bench", defaults={"kind": "embedded"})
    version_of(scene.team, "bench:v1")


def _benchmark(scene: Scene) -> Benchmark:
    _cluster(scene)
    return create_benchmark(actor=SYSTEM, team=scene.team, name=new_name(), **ORDER)


def _row(scene: Scene) -> dict[str, int]:
    return {"benchmark": _benchmark(scene).pk}


def _plan(scene: Scene) -> dict[str, Any]:
    _cluster(scene)
    return {"team": scene.team.name, **ORDER}


def _new(scene: Scene) -> dict[str, Any]:
    return {"name": "weekly", **_plan(scene)}


def _pair(scene: Scene) -> dict[str, int]:
    row = _benchmark(scene)
    cell = row.cells.get().pk
    return {"benchmark": row.pk, "ours": cell, "theirs": cell}


def _measuring(scene: Scene) -> dict[str, Any]:
    """Let the caller's token speak for a run that measures."""
    row = _benchmark(scene)
    run = BenchmarkRun.objects.create(
        benchmark=row, cell=row.cells.get(), repeat=1, position=1, state=RunState.MEASURING
    )
    BenchmarkLoadToken.objects.get_or_create(
        token=scene.user.tokens.latest("pk"), defaults={"run": run, "created_at": clock.now()}
    )
    return {}


def _progress(scene: Scene) -> dict[str, Any]:
    return {"stage": "smoke", "window": 0, "rate": 0, **_measuring(scene)}


def _result(scene: Scene) -> dict[str, Any]:
    return {"failed": "It does not answer.", **_measuring(scene)}


LOAD = Right.BENCHMARKS_LOAD
ROUTES = [
    Route("GET", "benchmark-load/", LOAD, fill=_measuring, status=409, owned=False),
    Route("PUT", "benchmark-load/progress/", LOAD, body=_progress, status=204, owned=False),
    Route("PUT", "benchmark-load/records/", LOAD, fill=_measuring, status=204, owned=False),
    Route("PUT", "benchmark-load/result/", LOAD, body=_result, status=204, owned=False),
    Route("GET", "benchmarks/", Access.SIGNED_IN, owned=False),
    Route("POST", "benchmarks/", Right.BENCHMARKS_WRITE, body=_new, status=201, owned=False),
    Route("POST", "benchmarks/preview/", Right.BENCHMARKS_WRITE, body=_plan, owned=False),
    Route("GET", "benchmarks/{benchmark}/", Right.READ, fill=_row),
    Route("GET", "benchmarks/{benchmark}/compare/{ours}/{theirs}/", Right.READ, fill=_pair),
    Route("POST", "benchmarks/{benchmark}/cancel/", Right.BENCHMARKS_WRITE, fill=_row),
]
