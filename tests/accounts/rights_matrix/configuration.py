from typing import Any

from accounts.states import Right
from configuration.models import AppliedDocument
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name


def _document(scene: Scene) -> dict[str, int]:
    columns: dict[str, Any] = {"kind": "freeze", "owner": scene.team.name, "name": new_name()}
    row = AppliedDocument.objects.create(
        team=scene.team, file_set="default", document={}, observed={}, **columns
    )
    return {"pk": row.pk}


def _set(scene: Scene) -> dict[str, object]:
    return {"team": scene.team.name, "documents": [], "dry_run": True}


ROUTES = [
    Route("GET", "configuration/", Access.SIGNED_IN, owned=False),
    Route("GET", "configuration/export/", Access.SIGNED_IN, owned=False),
    Route("POST", "configuration/apply/", Right.SERVICES_WRITE, body=_set, owned=False),
    Route("GET", "configuration/{pk}/", Right.READ, fill=_document),
    Route("DELETE", "configuration/{pk}/", Right.SERVICES_WRITE, fill=_document, status=204),
]
