"""Documents and addresses that nothing here can hold are refused where they come in, on every door."""

import orjson
import pytest
from django.test import Client
from rest_framework.exceptions import ParseError

from accounts.models import User
from accounts.states import AccountKind, Right
from common.api.json import MAX_DEPTH, loads
from tests.accounts.rights_matrix import ROUTES, Scene
from tests.cast import api, person, token_of

RAW = ("upload", "records")
"""Parts of addresses whose bodies are any bytes."""
DEEP = "[" * 200_000
CLOSED = "[" * 500 + "]" * 500


@pytest.mark.parametrize(
    "text", [DEEP, CLOSED, '{"a":' * 300 + "1" + "}" * 300, '["\\u0000"]', '{"\\u0000": 1}']
)
def test_what_is_too_deep_or_holds_nul_is_refused(text):
    with pytest.raises(ParseError):
        loads(text)
    with pytest.raises(ParseError):
        loads(text.encode())


def test_what_is_as_deep_as_allowed_is_read():
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert orjson.dumps(loads(text)).decode() == text
    assert loads(r'["C:\\u0000"]') == [r"C:\u0000"]


@pytest.mark.django_db
@pytest.mark.parametrize("text", [DEEP, CLOSED, '{"name": "a\\u0000b"}'], ids=["open", "closed", "nul"])
def test_every_route_that_takes_a_body_answers_a_problem(text, import_root):
    scene = Scene.of_superuser()
    client = Client(headers={"Authorization": f"Bearer {token_of(scene.user)}"})
    client.raise_request_exception = False
    for route in ROUTES:
        if route.method in ("POST", "PUT", "PATCH") and not any(part in route.path for part in RAW):
            path = f"/api/v1/{route.path_in(scene)}"
            answer = client.generic(route.method, path, text, content_type="application/json")
            assert answer.status_code < 500, f"{route}: {answer.content[:300]!r}"
            assert answer["Content-Type"].startswith("application/"), route


@pytest.mark.django_db
@pytest.mark.any_database
@pytest.mark.parametrize("path", ["gpu-health/events/", "gpu-health/events/sns/"])
@pytest.mark.parametrize("text", [DEEP, CLOSED, '{"event": "a\\u0000b"}'], ids=["open", "closed", "nul"])
def test_events_of_providers_are_read_as_strictly(path, text):
    caller = api(person("root", superuser=True))
    answer = caller.client.generic(
        "POST",
        f"/api/v1/{path}",
        text,
        content_type="text/plain",
        headers={"Authorization": f"Bearer {caller.token}"},
    )
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
@pytest.mark.any_database
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/models/?q=%00",
        "/api/v1/models/a%00b/",
        "/scim/v2/Users?filter=userName%20eq%20%22%00%22",
        "/?q=%00",
        "/models/a%00b/",
        "/search/?q=%00",
        "/api/v1/models/?%00=1",
    ],
)
def test_an_address_with_nul_is_a_bad_request(path):
    client = Client(headers={"Authorization": f"Bearer {token_of(person('root', superuser=True))}"})
    client.raise_request_exception = False
    assert client.get(path).status_code == 400


@pytest.mark.django_db
@pytest.mark.any_database
def test_a_form_with_nul_is_a_bad_request(client):
    client.raise_request_exception = False
    assert client.post("/accounts/login/", {"login": "a\0b", "password": "x"}).status_code == 400


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("text", [DEEP, CLOSED, '{"username": "a\\u0000b"}'], ids=["open", "closed", "nul"])
def test_scim_says_so_in_its_own_words(text):
    account = person("directory")
    User.objects.filter(pk=account.pk).update(kind=AccountKind.DIRECTORY)
    client = Client(headers={"Authorization": f"Bearer {token_of(account, scopes=[Right.PEOPLE_PROVISION])}"})
    answer = client.generic("POST", "/scim/v2/Users", text, content_type="application/scim+json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/scim+json"
