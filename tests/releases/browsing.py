"""A person at the console's pages."""

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import Membership, User
from accounts.states import Role
from releases.states import ReleaseState as S
from tests.releases.world import Scene


def until_it_waits(scene: Scene) -> None:
    scene.start()
    scene.run_until_state(S.WAITING_APPROVAL)


def as_person(name: str, scene: Scene, role: Role | None = None) -> Client:
    user = User.objects.get_or_create(username=name)[0]
    if role is not None:
        Membership.objects.get_or_create(user=user, team=scene.team, defaults={"role": role})
    client = Client(headers={"Referer": "http://testserver/"})
    client.force_login(user, backend="accounts.login.PasswordBackend")
    return client


def text_of(client: Client, path: str, **headers: str) -> str:
    response = client.get(path, headers=headers)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def page_of(scene: Scene) -> str:
    return f"/releases/{scene.release.pk}/"


def queries_of(client: Client, path: str) -> int:
    client.get(path)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        client.get(path)
    return len(captured)


def form_of(**changes: str) -> dict[str, str]:
    """A plan as the editor sends it."""
    given = {
        "name": "mine", "description": "", "steps.0.kind": "deploy", "steps.0.share_percent": "100",
        "steps.0.ready_within_seconds": "60", "steps.1.kind": "weight", "steps.1.percent": "10",
        "steps.2.kind": "promote", "judge.false_roll_back_percent": "5", "judge.false_promote_percent": "10",
        "judge.min_requests": "100", "judge.requests_per_session": "1",
        "judge.abort_above_percent": "50", "judge.abort_min_requests": "20",
        "judge.errors.roll_back_above_ratio": "1", "judge.errors.roll_back_min_percent": "0.1",
        "judge.errors.promote_below_ratio": "2",
    }  # fmt: skip
    return given | changes
