from typing import Any

from accounts.states import Right
from clusters.models import Cluster
from models_registry.models import Version, VersionFile
from models_registry.states import VersionState
from optimization.services import start_run
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
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


ROUTES = [
    Route("GET", "optimizations/", Access.SIGNED_IN, owned=False),
    Route("GET", "optimizations/recipes/", Access.SIGNED_IN, owned=False),
    Route("POST", "optimizations/", Right.OPTIMIZATIONS_WRITE, body=_order, status=201, owned=False),
    Route("POST", "optimizations/preview/", Right.OPTIMIZATIONS_WRITE, body=_order, owned=False),
    Route("GET", "optimizations/{optimization}/", Right.READ, fill=_row),
    Route("POST", "optimizations/{optimization}/cancel/", Right.OPTIMIZATIONS_WRITE, fill=_row),
]
