from typing import Any

from accounts.states import Right
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.cast import SYSTEM
from usage.services import create_budget


def _new(scene: Scene) -> dict[str, Any]:
    return {"name": new_name(), "team": scene.team.name, "measure": "requests", "amount": 10}


def _row(scene: Scene) -> dict[str, str]:
    given = {"name": new_name(), "measure": "requests", "amount": 10.0}
    return {"id": str(create_budget(actor=SYSTEM, team=scene.team, **given).pk)}  # type: ignore[arg-type]


ROUTES = [
    Route("GET", "usage/", Access.SIGNED_IN, owned=False),
    Route("GET", "budgets/", Access.SIGNED_IN, owned=False),
    Route("POST", "budgets/", Right.SERVICES_WRITE, body=_new, status=201, owned=False),
    Route("GET", "budgets/{id}/", Right.READ, fill=_row),
    Route("DELETE", "budgets/{id}/", Right.SERVICES_WRITE, fill=_row, status=204),
]
