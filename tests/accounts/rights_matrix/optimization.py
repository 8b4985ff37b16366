import hashlib
from typing import Any

from accounts.states import Right
from clusters.models import Cluster
from common import clock
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState
from optimization.models import OptimizationJobToken, OptimizationRun
from optimization.services import start_run
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
from tests.clusters.model_files import stored_version
from tests.clusters.world import version_of

ORDER: dict[str, Any] = {
    "parent": "opt:v1",
    "recipe": "local/int8-dynamic",
    "cluster": "optimize",
    "test": "opt:v1/test.jsonl",
}


def _version(scene: Scene) -> None:
    Cluster.objects.get_or_create(name="optimize", defaults={"kind": "embedded"})
    version = version_of(scene.team, "opt:v1")
    if not VersionFile.objects.filter(version=version).exists():
        VersionFile.objects.bulk_create(
            VersionFile(version=version, path=path, size=1, sha256="0" * 64, format=format)
            for path, format in (("model.safetensors", "safetensors"), ("test.jsonl", "text"))
        )
    assert Version.objects.get(pk=version.pk).state == VersionState.READY


def _row(scene: Scene) -> dict[str, int]:
    _version(scene)
    return {"optimization": start_run(actor=SYSTEM, team=scene.team, name=new_name(), **ORDER).pk}


def _order(scene: Scene) -> dict[str, Any]:
    _version(scene)
    return {"team": scene.team.name, **ORDER}


def _batch(scene: Scene) -> dict[str, Any]:
    order = _order(scene)
    return {"recipes": [order.pop("recipe")], **order}


def _working(scene: Scene) -> dict[str, Any]:
    """Let the caller's token speak for a run whose job works."""
    row = OptimizationRun.objects.get(pk=_row(scene)["optimization"])
    parent = stored_version(scene.team, {"a.txt": CONTENT}, label=f"opt-{new_name()}:v1")
    OptimizationRun.objects.filter(pk=row.pk).update(state="running", parent=parent)
    OptimizationJobToken.objects.update_or_create(
        token=scene.user.tokens.latest("pk"), defaults={"run": row, "created_at": clock.now()}
    )
    return {"version": parent.pk, "sha256": hashlib.sha256(CONTENT).hexdigest()}


def _progress(scene: Scene) -> dict[str, Any]:
    _working(scene)
    return {"stage": "rounding", "done": 0, "total": 9}


def _result(scene: Scene) -> dict[str, Any]:
    _working(scene)
    return {"result": {"refused": "It cannot."}, "files": []}


CONTENT = b"{}"
RUN = Right.OPTIMIZATIONS_RUN
ROUTES = [
    Route("GET", "optimization-job/", RUN, fill=_working, owned=False),
    Route("GET", "optimization-job/inputs/{version}/{sha256}/", RUN, fill=_working, owned=False),
    Route(
        "PUT",
        "optimization-job/files/{sha256}/",
        RUN,
        fill=_working,
        body=lambda _: {},
        status=204,
        owned=False,
    ),
    Route("PUT", "optimization-job/progress/", RUN, body=_progress, status=204, owned=False),
    Route("PUT", "optimization-job/result/", RUN, body=_result, status=204, owned=False),
    Route("POST", "optimizations/batch/", Right.OPTIMIZATIONS_WRITE, body=_batch, status=201, owned=False),
    Route("GET", "optimizations/", Access.SIGNED_IN, owned=False),
    Route("GET", "optimizations/recipes/", Access.SIGNED_IN, owned=False),
    Route("POST", "optimizations/", Right.OPTIMIZATIONS_WRITE, body=_order, status=201, owned=False),
    Route("POST", "optimizations/preview/", Right.OPTIMIZATIONS_WRITE, body=_order, owned=False),
    Route("GET", "optimizations/{optimization}/", Right.READ, fill=_row),
    Route("POST", "optimizations/{optimization}/cancel/", Right.OPTIMIZATIONS_WRITE, fill=_row),
]
