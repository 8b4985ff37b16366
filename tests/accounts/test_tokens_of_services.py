"""A token that is limited to services acts on these alone, on every route."""

import pytest

from accounts.errors import OutOfScope
from accounts.models import ApiToken
from accounts.services.tokens import create_token
from accounts.states import SERVICE_RIGHTS, Right, Role
from common.actor import Actor
from common.errors import Invalid
from tests.accounts.rights_matrix import ROUTES, Access, Scene
from tests.cast import Api, api, client_of, person

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("import_root"), pytest.mark.any_database]


def limited(scene: Scene, *services: str, scopes: object = None) -> Api:
    rights = sorted(SERVICE_RIGHTS if scopes is None else scopes)  # type: ignore[call-overload]
    return api(scene.user, scopes=rights, services=list(services))


def test_it_starts_releases_of_its_service_and_of_no_other():
    scene = Scene.of_role(Role.DEVELOPER)
    name = scene.service.name
    body = {"service": name, "version": scene.version("ready", "v2").name}
    refused = limited(scene, "another").post("releases/", body)
    assert refused.status_code == 403
    assert "other services" in refused.json()["detail"]
    started = limited(scene, name, scopes=[Right.READ, Right.RELEASES_START]).post("releases/", body)
    assert started.status_code == 202, started.content
    path = f"releases/{started.json()['id']}/pause/"
    verb = limited(scene, name, scopes=[Right.READ, Right.RELEASES_START]).post(path, {"reason": "x"})
    assert verb.status_code == 403, "pausing is another verb"
    assert limited(scene, "another").post(path, {"reason": "x"}).status_code == 403
    assert limited(scene, name).post(path, {"reason": "x"}).status_code == 200


@pytest.mark.parametrize(
    "route",
    [r for r in ROUTES if r.method != "GET" and isinstance(r.needs, Right) and r.needs != Right.READ],
    ids=str,
)
def test_no_route_that_changes_anything_opens_to_a_token_of_another_service(route):
    scene = Scene.of_role(Role.ADMIN)
    token = limited(scene, "another", scopes=sorted(Right.values))
    answer = token.call(route.method, route.path_in(scene), route.body_in(scene))
    assert answer.status_code in (403, 404), answer.content


def test_not_even_of_an_administrator():
    scene = Scene.of_superuser()
    token = limited(scene, "another", scopes=sorted(Right.values))
    for route in ROUTES:
        if route.method != "GET" and route.needs is Access.ADMINISTRATOR:
            answer = token.call(route.method, route.path_in(scene), route.body_in(scene))
            assert answer.status_code in (403, 404), f"{route}: {answer.content!r}"


def test_it_is_made_over_rest_and_shown_in_the_list():
    ada = person("ada", vision=Role.DEVELOPER)
    mine = api(ada)
    made = mine.post("tokens/", {"name": "ci", "scopes": ["read", "releases.start"], "services": ["chat"]})
    assert made.status_code == 201, made.content
    assert made.json()["services"] == ["chat"]
    assert "only chat" in client_of(ada).get("/settings/tokens/").content.decode()
    form = {"name": "x", "scopes": ["releases.start"], "services": " chat, embeddings", "days": "30"}
    assert client_of(ada).post("/settings/tokens/+new/", form).status_code == 201
    assert ApiToken.objects.get(name="x").services == ["chat", "embeddings"]
    wrong = mine.post("tokens/", {"name": "y", "scopes": ["models.write"], "services": ["chat"]})
    assert list(wrong.json()["errors"]) == ["services"]
    assert mine.post("tokens/", {"name": "y", "scopes": ["read"], "services": ["No Name"]}).status_code == 400


def test_a_child_reaches_no_further_than_its_parent():
    ada = person("ada", vision=Role.DEVELOPER)
    parent = ApiToken.objects.get(
        pk=create_token(
            actor=Actor(name="ada", user_id=ada.pk, via="web"), name="ci", scopes=["read"], services=["chat"]
        ).token.pk
    )
    actor = Actor(name="ada", user_id=ada.pk, token_id=parent.pk, via="api")
    create_token(actor=actor, name="child", scopes=["read"], services=["chat"])
    for services in ([], ["other"], ["chat", "other"]):
        with pytest.raises(OutOfScope):
            create_token(actor=actor, name="child", scopes=["read"], services=services)
    with pytest.raises(Invalid):
        create_token(actor=actor, name="child", scopes=["models.write"], services=["chat"])
