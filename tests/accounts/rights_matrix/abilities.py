from accounts.states import Right
from clusters.models import Cluster
from gateway.services.abilities import create_ability
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
from tests.gateway.cast import cluster


def _shared(_: Scene) -> Cluster:
    return cluster("ability")


def _new(scene: Scene) -> dict[str, str]:
    return {"name": new_name(), "team": scene.team.name, "cluster": _shared(scene).name}


def _row(scene: Scene) -> dict[str, str]:
    given = {"name": new_name(), "cluster": _shared(scene).name}
    return {"ability": create_ability(actor=SYSTEM, team=scene.team, **given).name}


ROUTES = [
    Route("GET", "abilities/", Access.SIGNED_IN, owned=False),
    Route("POST", "abilities/", Right.SERVICES_WRITE, body=_new, status=201, owned=False),
    Route("GET", "abilities/{ability}/", Right.READ, fill=_row),
    Route("DELETE", "abilities/{ability}/", Right.SERVICES_WRITE, fill=_row, status=204),
]
