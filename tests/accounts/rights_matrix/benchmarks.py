from typing import Any

from accounts.states import Right
from benchmarks.models import Benchmark
from benchmarks.services import create_benchmark
from clusters.models import Cluster
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


ROUTES = [
    Route("GET", "benchmarks/", Access.SIGNED_IN, owned=False),
    Route("POST", "benchmarks/", Right.BENCHMARKS_WRITE, body=_new, status=201, owned=False),
    Route("POST", "benchmarks/preview/", Right.BENCHMARKS_WRITE, body=_plan, owned=False),
    Route("GET", "benchmarks/{benchmark}/", Right.READ, fill=_row),
    Route("GET", "benchmarks/{benchmark}/compare/{ours}/{theirs}/", Right.READ, fill=_pair),
    Route("POST", "benchmarks/{benchmark}/cancel/", Right.BENCHMARKS_WRITE, fill=_row),
]
