from accounts.states import Right
from clusters.models import Deployment
from common.fence import Fence
from gateway.routes import RouteSpec, RouteTarget
from gateway.services.client_keys import create_key
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
from tests.clusters.world import version_of
from tests.gateway.cast import cluster, set_route


def _new(scene: Scene) -> dict[str, str]:
    return {"name": new_name(), "team": scene.team.name}


def _row(scene: Scene) -> dict[str, str]:
    return {"id": str(create_key(actor=SYSTEM, team=scene.team, name=new_name()).key.pk)}


def _service(scene: Scene) -> dict[str, str]:
    name = new_name()
    Deployment.objects.create(
        name=f"{name}-1",
        cluster=cluster(),
        team=scene.team,
        service=name,
        version=version_of(scene.team, f"{name}:v1"),
        version_label=f"{name}:v1",
        engine="app",
        replicas=1,
        slots=1,
    )
    spec = RouteSpec(name, RouteTarget(f"{name}-1", f"{name}:v1"), None, 0)
    set_route(spec, fence=Fence(1, 1), actor=SYSTEM)
    return {"service": name}


ROUTES = [
    Route("GET", "client-keys/", Access.SIGNED_IN, owned=False),
    Route("POST", "client-keys/", Right.SERVICES_WRITE, body=_new, status=201, owned=False),
    Route("GET", "client-keys/{id}/", Right.READ, fill=_row),
    Route("DELETE", "client-keys/{id}/", Right.SERVICES_WRITE, fill=_row, status=204),
    Route("GET", "services/{service}/client-access/", Right.READ, fill=_service),
    Route(
        "PUT",
        "services/{service}/client-access/",
        Right.SERVICES_WRITE,
        fill=_service,
        body=lambda scene: {"requires_key": True},
    ),
]
