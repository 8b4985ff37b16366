"""What every endpoint does by itself."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from accounts import actors
from accounts.models import ApiToken, Membership, Team
from accounts.querysets import TeamOwned
from common.api.views import Endpoint
from tests.cast import Api, api, person, team

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


class Owned(TeamOwned[Membership]):
    pass


def visible_to(user, rows):
    class View(Endpoint):
        queryset = rows

    view = View()
    view.request = type("Request", (), {"_request": type("R", (), {"actor": actors.of_user(user)})})
    return view.get_queryset()


def test_rows_of_a_team_are_narrowed_without_a_word_in_the_view():
    ada, bob = person("ada", vision="viewer"), person("bob", speech="viewer")
    assert [row.user for row in visible_to(ada, Owned(Membership))] == [ada]
    assert [row.user for row in visible_to(bob, Owned(Membership))] == [bob]


def test_a_view_that_does_not_say_what_is_visible_shows_nothing():
    with pytest.raises(ImproperlyConfigured):
        visible_to(person("ada"), Team.objects.all())


def test_answers_are_not_kept_by_caches(root):
    assert root.get("teams/")["Cache-Control"] == "private, no-cache"
    made = root.post("tokens/", {"name": "x", "scopes": ["read"]})
    assert made["Cache-Control"] == "no-store"
    assert ApiToken.objects.count() == 2


def test_options_gives_nothing_away(root):
    assert root.call("OPTIONS", "teams/").status_code == 405


def test_head_is_a_get_without_its_body(root):
    team("vision")
    answer = root.call("HEAD", "teams/vision/")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer["ETag"] == root.get("teams/vision/")["ETag"]


def test_the_schema_and_its_pages_are_open_and_complete():
    schema = Client().get("/api/schema/", headers={"Accept": "application/vnd.oai.openapi+json"}).json()
    create = schema["paths"]["/api/v1/teams/"]["post"]
    assert {parameter["name"] for parameter in create["parameters"]} == {"Idempotency-Key"}
    assert create["responses"]["409"]["content"].keys() == {"application/problem+json"}
    assert create["responses"]["201"]["headers"].keys() == {"ETag", "Location"}
    change = schema["paths"]["/api/v1/teams/{team}/"]["patch"]
    assert {"If-Match", "team"} == {parameter["name"] for parameter in change["parameters"]}
    assert "412" in change["responses"]
    listed = schema["paths"]["/api/v1/teams/"]["get"]
    assert {p["name"] for p in listed["parameters"]} == {"limit", "cursor", "sort", "q"}
    assert all(
        operation.get("summary")
        for path in schema["paths"].values()
        for operation in path.values()
        if isinstance(operation, dict)
    )
    assert Client().get("/api/docs/").status_code == 200
