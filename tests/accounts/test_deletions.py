"""Why something was deleted: a DELETE has no body, so its query says it."""

from urllib.parse import urlencode

import pytest

from accounts.models import Team
from common.audit import MAX_REASON
from common.models import AuditRecord
from tests import cast
from tests.accounts.rights_matrix import ROUTES, Scene
from tests.accounts.rights_matrix.scene import new_name

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root")]


def test_every_delete_writes_its_reason_into_the_record():
    scene = Scene.of_superuser()
    deletions = [route for route in ROUTES if route.method == "DELETE"]
    assert len(deletions) >= 10
    for route in deletions:
        before = scene.in_team(new_name())
        why = f"Müde & satt of {route.path}?"
        path = route.path_in(before).removesuffix(route.query)
        answer = scene.api.delete(f"{path}?{urlencode({'reason': why})}")
        assert answer.status_code == route.status, answer.content
        assert AuditRecord.objects.filter(reason=why).exists(), route


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"reason": "x" * (MAX_REASON + 1)}, "reason"),
        ({"reson": "It is full."}, "reson"),
    ],
)
def test_a_reason_that_would_not_be_kept_deletes_nothing(query, field):
    cast.team("vision")
    root = cast.api(cast.person("root", superuser=True))
    answer = root.delete(f"teams/vision/?{urlencode(query)}")
    assert (answer.status_code, [*answer.json()["errors"]]) == (400, [field])
    assert root.delete("teams/vision/?reason=x%00").status_code == 400
    assert Team.objects.filter(name="vision").exists()
