from collections.abc import Mapping
from typing import Any

from accounts.states import Right
from gpu_health.models import Drill, DrillCluster
from tests.accounts.rights_matrix.scene import Access, Route, Scene

DRILL = "gpu-health/drills/{id}/"
GIVEN = {"scenario": "xid-79", "way": "agent"}


def _test_cluster(scene: Scene) -> Mapping[str, Any]:
    DrillCluster.objects.get_or_create(cluster=scene.cluster)
    Drill.objects.all().delete()
    scene.cluster.nodes.update(name="matrix-machine")
    return {}


def _drill(scene: Scene) -> Mapping[str, Any]:
    drill, _is_new = Drill.objects.update_or_create(node=scene.cluster.nodes.get(), defaults=GIVEN)
    return {"id": drill.pk}


ROUTES = [
    Route("GET", "gpu-health/drills/", Access.SIGNED_IN, owned=False),
    Route(
        "POST",
        "gpu-health/drills/",
        Right.FLEET_OPERATE,
        fill=_test_cluster,
        body=lambda scene: {"node": "matrix-machine", "scenario": "xid-79"},
        status=201,
    ),
    Route(
        "POST",
        "gpu-health/drills/mark/",
        Right.FLEET_OPERATE,
        body=lambda scene: {"cluster": scene.cluster.name, "is_test": True},
    ),
    Route("GET", "gpu-health/drills/scenarios/", Access.SIGNED_IN, owned=False),
    Route("GET", DRILL, Right.READ, fill=_drill),
    Route("POST", f"{DRILL}cancel/", Right.FLEET_OPERATE, fill=_drill, body=lambda scene: {}),
]
