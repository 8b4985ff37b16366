from typing import Any

from accounts.states import Right
from objectives.models import ServiceObjective
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name


def _objective(scene: Scene) -> dict[str, int]:
    columns: dict[str, Any] = {"service": scene.service, "team": scene.team, "target_percent": 99.0}
    return {"pk": ServiceObjective.objects.create(name=new_name(), **columns).pk}


def _new(scene: Scene) -> dict[str, object]:
    return {"name": new_name(), "service": scene.service.name, "target_percent": 99.9}


ROUTES = [
    Route("GET", "objectives/", Access.SIGNED_IN, owned=False),
    Route("POST", "objectives/", Right.SERVICES_WRITE, body=_new, status=201, owned=False),
    Route("GET", "objectives/{pk}/", Right.READ, fill=_objective),
    Route(
        "PATCH",
        "objectives/{pk}/",
        Right.SERVICES_WRITE,
        fill=_objective,
        body=lambda _: {"target_percent": 98},
    ),
    Route("DELETE", "objectives/{pk}/", Right.SERVICES_WRITE, fill=_objective, status=204),
]
