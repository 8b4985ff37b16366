from typing import Any

from accounts.states import Right
from freezes.models import Freeze
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name

WINDOW = {"starts_at": "2026-12-24T17:00:00Z", "minutes": 60}


def _window(scene: Scene) -> dict[str, int]:
    columns: dict[str, Any] = {**WINDOW, "name": new_name(), "team": scene.team}
    return {"pk": Freeze.objects.create(**columns).pk}


def _new(scene: Scene) -> dict[str, object]:
    return {"name": new_name(), "team": scene.team.name, **WINDOW}


def _stop(scene: Scene) -> dict[str, object]:
    return {"team": scene.team.name, "reason": "Everything is slow."}


ROUTES = [
    Route("GET", "freezes/", Access.SIGNED_IN, owned=False),
    Route("POST", "freezes/", Right.FREEZES_WRITE, body=_new, status=201, owned=False),
    Route("POST", "freezes/stop/", Right.FREEZES_STOP, body=_stop, status=201, owned=False),
    Route("GET", "freezes/{pk}/", Right.READ, fill=_window),
    Route("PATCH", "freezes/{pk}/", Right.FREEZES_WRITE, fill=_window, body=lambda _: {"minutes": 90}),
    Route("DELETE", "freezes/{pk}/", Right.FREEZES_WRITE, fill=_window, status=204),
]
