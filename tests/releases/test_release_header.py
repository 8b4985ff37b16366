"""Who lets clients choose the candidate by `x-release`, where a release policy guards it."""

import pytest

from accounts.models import WebhookEvent
from accounts.services.webhooks import create_webhook
from accounts.states import Role
from common.actor import Actor
from common.models import AuditRecord
from releases.errors import BelowPolicy
from releases.models import Service
from releases.services.release_header import set_release_header
from releases.services.service import change_service
from tests.cast import SYSTEM, api
from tests.releases.browsing import as_person, text_of
from tests.releases.test_policy_bypass import user_of
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A service whose plan asks for a judge and for an approval by another person; ada is a developer."""
    return Scene(monkeypatch)


@pytest.fixture
def boss(scene: Scene) -> Actor:
    return scene._person("cleo", Role.ADMIN)


def header_of(scene: Scene) -> str:
    return str(Service.objects.get(pk=scene.service.pk).release_header)


def test_only_who_may_bypass_lets_every_client_choose_the_candidate_and_says_why(
    scene: Scene, boss: Actor
) -> None:
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/", team=scene.team)
    path, opening = f"services/{scene.name}/release-header/", {"release_header": "open"}
    ada, cleo = api(user_of(scene.requester)), api(user_of(boss))
    refused = ada.post(path, opening | {"reason": "it is urgent"})
    assert refused.status_code == 403
    assert "releases.bypass" in refused.json()["detail"]
    answer = as_person("ada", scene).post(f"/{path}", opening | {"reason": "it is urgent"})
    assert answer.status_code == 422
    assert "releases.bypass" in answer.content.decode()
    unsaid = cleo.post(path, opening)
    assert (unsaid.status_code, list(unsaid.json()["errors"])) == (400, ["reason"])
    answer = as_person("cleo", scene).post(f"/{path}", opening)
    assert 'id="header_reason_error"' in answer.content.decode()
    assert header_of(scene) == "off"
    assert cleo.post(path, opening | {"reason": "a playground"}).status_code == 200
    assert header_of(scene) == "open"
    assert "Any client can reach the candidate" in text_of(
        as_person("ada", scene), f"/services/{scene.name}/"
    )
    assert AuditRecord.objects.get(action="policy.lower").reason == "a playground"
    assert WebhookEvent.objects.filter(type="policy.lowered").count() == 1
    # It is open: to say so again opens nothing, and to close it lowers nothing.
    assert ada.post(path, opening).status_code == 200
    assert ada.post(path, {"release_header": "off"}).status_code == 200
    assert ada.post(path, opening).status_code == 403


def test_where_nothing_is_demanded_a_developer_lets_every_client_choose(scene: Scene, boss: Actor) -> None:
    change_service(
        scene.service, actor=boss, plan_name="direct", policy={"plans": ["direct"]}, reason="a playground"
    )
    set_release_header(scene.service, actor=scene.requester, header="open")
    assert header_of(scene) == "open"
    assert not AuditRecord.objects.filter(action="policy.lower", reason="").exists()


def test_what_was_demanded_of_a_running_release_keeps_its_candidate_closed(scene: Scene, boss: Actor) -> None:
    scene.start()
    change_service(scene.service, actor=boss, plan_name="direct", reason="for the next one")
    with pytest.raises(BelowPolicy, match="cannot choose the candidate"):
        set_release_header(scene.service, actor=scene.requester, header="open", reason="now")
