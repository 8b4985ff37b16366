"""People, teams, members and tokens over REST, and who is asking."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, Membership, Team, User
from common.models import AuditRecord
from tests.cast import PASSWORD, Api, api, person, team, token_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> Api:
    return api(person("root", superuser=True))


def test_me_says_who_asks_and_what_they_may_do_where():
    ada = person("ada", vision="developer", speech="viewer")
    shown = api(ada, scopes=["read", "models.write"]).get("me/").json()
    assert shown["username"] == "ada"
    assert shown["everywhere"] == []
    assert shown["teams"] == [
        {"team": "speech", "rights": ["read"]},
        {"team": "vision", "rights": ["models.write", "read"]},
    ]
    assert shown["token"]["scopes"] == ["models.write", "read"]


def test_me_lists_an_administrators_own_teams_only_and_a_tokens_one_team():
    root = person("root", superuser=True, vision="viewer", speech="viewer")
    team("other")
    assert [row["team"] for row in api(root).get("me/").json()["teams"]] == ["speech", "vision"]
    limited = api(root, only_team=team("vision"), scopes=["read"]).get("me/").json()
    assert limited["teams"] == [{"team": "vision", "rights": ["read"]}]
    assert limited["everywhere"] == []


def test_a_browser_session_asks_for_itself():
    client = Client()
    client.force_login(person("ada", vision="viewer"))
    shown = client.get("/api/v1/me/").json()
    assert (shown["username"], shown["token"]) == ("ada", None)


def test_a_session_changes_nothing_without_its_csrf_token():
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("root", superuser=True))
    answer = client.post("/api/v1/teams/", {"name": "vision"}, content_type="application/json")
    assert answer.status_code == 403
    assert answer["Content-Type"] == "application/problem+json"
    assert "CSRF" in answer.json()["detail"]
    assert not Team.objects.exists()


def test_a_bad_token_is_refused_even_with_a_good_session():
    client = Client()
    client.force_login(person("root", superuser=True))
    answer = Api(token_of(User.objects.get(), expires_at=timezone.now()), client).get("me/")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert "expired" in answer.json()["detail"]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer x", "Basic YTpi", "slp_x", "Bearer  slp_a_b c", "\xff"]
)
def test_what_is_no_token_is_nobody(header):
    answer = Client().get("/api/v1/me/", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"


def test_a_team_is_created_read_changed_and_deleted(root):
    made = root.post("teams/", {"name": "vision", "description": "Images"})
    assert made.status_code == 201
    assert made["Location"] == "/api/v1/teams/vision/"
    read = root.get(made["Location"])
    assert read["ETag"] == made["ETag"]
    changed = root.patch("teams/vision/", {"description": "All images"}, If_Match=read["ETag"])
    assert changed.json()["description"] == "All images"
    late = root.patch("teams/vision/", {"description": "Mine"}, If_Match=read["ETag"])
    assert late.status_code == 412
    assert root.delete("teams/vision/", If_Match=read["ETag"]).status_code == 412
    assert root.delete("teams/vision/", If_Match=changed["ETag"]).status_code == 204
    assert root.get("teams/vision/").status_code == 404


def test_a_taken_or_impossible_name_is_said_by_field(root):
    team("vision")
    for name in ("vision", "No Such"):
        answer = root.post("teams/", {"name": name})
        assert answer.status_code == 400
        assert list(answer.json()["errors"]) == ["name"]


def test_a_member_is_added_promoted_and_removed(root):
    person("ada"), person("boss", vision="admin")
    added = root.post("teams/vision/members/", {"username": "ada", "role": "viewer"})
    assert (added.status_code, added["Location"]) == (201, "/api/v1/teams/vision/members/ada/")
    put = root.put("teams/vision/members/ada/", {"role": "approver", "reason": "peer"})
    assert (put.status_code, put.json()["role"]) == (200, "approver")
    assert (
        root.put("teams/vision/members/ada/", {"role": "viewer"}, If_Match=added["ETag"]).status_code == 412
    )
    assert root.put("teams/vision/members/ada/", {"role": "viewer"}, If_None_Match="*").status_code == 412
    assert AuditRecord.objects.get(action="member.change").reason == "peer"
    assert root.delete("teams/vision/members/ada/").status_code == 204
    gone = root.put("teams/vision/members/ada/", {"role": "viewer"}, If_Match=put["ETag"])
    assert gone.status_code == 412
    again = root.put("teams/vision/members/ada/", {"role": "viewer"})
    assert again.status_code == 201
    last = root.delete("teams/vision/members/boss/")
    assert last.status_code == 409
    assert "without an admin" in last.json()["detail"]


def test_a_member_must_exist_and_have_a_role_that_exists(root):
    team("vision")
    nobody = root.put("teams/vision/members/nobody/", {"role": "viewer"})
    assert nobody.json()["errors"] == {"username": ["There is no such person."]}
    assert root.put("teams/vision/members/root/", {"role": "king"}).json()["errors"].keys() == {"role"}
    assert root.put("teams/nowhere/members/root/", {"role": "viewer"}).status_code == 404


def test_an_admin_of_a_team_cannot_find_out_who_else_has_an_account_by_reading():
    boss = api(person("boss", vision="admin"))
    person("stranger", speech="viewer")
    assert [p["username"] for p in boss.get("people/").json()["results"]] == ["boss"]
    assert boss.get("people/stranger/").status_code == 404
    assert boss.get("teams/speech/").status_code == 404
    assert boss.get("teams/speech/members/").status_code == 404
    assert boss.get("people/?q=stranger").json()["results"] == []


def test_of_a_colleague_one_sees_only_the_teams_that_one_shares():
    person("bob", vision="viewer", secret="admin")
    shown = api(person("ada", vision="viewer")).get("people/bob/").json()
    assert shown["teams"] == [{"team": "vision", "role": "viewer"}]


def test_people_are_made_by_an_admin_of_the_team(root):
    boss = api(person("boss", vision="admin"))
    made = boss.post(
        "people/", {"username": "ada", "password": PASSWORD, "team": "vision", "role": "developer"}
    )
    assert made.status_code == 201
    assert made.json()["teams"] == [{"team": "vision", "role": "developer"}]
    assert "password" not in made.json()
    assert boss.post("people/", {"username": "bob"}).status_code == 403
    weak = root.post("people/", {"username": "bob", "password": "123"})
    assert weak.json()["errors"].keys() == {"password"}
    assert root.post("people/", {"username": "ADA"}).status_code == 400


def test_people_are_changed_and_helped_by_administrators(root):
    ada = person("ada", vision="viewer")
    assert root.patch("people/ada/", {"is_active": False}).json()["is_active"] is False
    assert [p["username"] for p in root.get("people/?is_active=false").json()["results"]] == ["ada"]
    assert root.post("people/ada/password/", {"password": "a new good phrase"}).status_code == 204
    ada.refresh_from_db()
    assert ada.check_password("a new good phrase")
    last = root.patch("people/root/", {"is_superuser": False})
    assert (last.status_code, last.json()["type"]) == (409, "urn:slipway:problem:conflict")


def test_names_of_people_may_hold_what_names_may_hold(root):
    made = root.post("people/", {"username": "ada.lovelace+x@example.org", "email": "a@example.org"})
    assert root.get(made["Location"]).json()["username"] == "ada.lovelace+x@example.org"


def test_a_token_is_made_used_and_revoked():
    ada = person("ada", vision="developer")
    client = Client()
    client.force_login(ada)
    made = Api(client=client).post("tokens/", {"name": "ci", "scopes": ["read"], "team": "vision"})
    assert made.status_code == 201
    text = made.json()["token"]
    with_token = Api(text)
    assert with_token.get("me/").json()["token"]["name"] == "ci"
    shown = with_token.get(made["Location"]).json()
    assert "token" not in shown
    assert shown["state"] == "active"
    assert with_token.delete(made["Location"]).status_code == 204
    assert with_token.get("me/").status_code == 401
    assert ApiToken.objects.get().state == "revoked"


def test_tokens_of_others_are_seen_and_revoked_by_administrators_only(root):
    bobs = token_of(person("bob"))
    row = ApiToken.objects.get(owner__username="bob")
    ada = api(person("ada"))
    assert ada.get(f"tokens/{row.pk}/").status_code == 404
    assert ada.delete(f"tokens/{row.pk}/").status_code == 404
    assert len(ada.get("tokens/").json()["results"]) == 1
    assert root.delete(f"tokens/{row.pk}/").status_code == 204
    assert Api(bobs).get("me/").status_code == 401


def test_a_robot_gets_its_token_from_an_administrator(root):
    person("robot", vision="operator")
    made = root.post("tokens/", {"name": "worker", "scopes": ["fleet.report"], "owner": "robot"})
    assert made.json()["owner"] == "robot"
    assert root.post("tokens/", {"name": "x", "scopes": ["read"], "owner": "nobody"}).status_code == 400
    refused = api(person("ada", vision="admin")).post(
        "tokens/", {"name": "x", "scopes": ["read"], "owner": "robot"}
    )
    assert refused.status_code == 403


def test_lists_cost_the_same_number_of_queries_however_long(root):
    def queries(path: str) -> int:
        root.get("me/")
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert root.get(path).status_code == 200
        return len(captured)

    paths = ["people/", "teams/", "teams/vision/members/", "tokens/"]
    person("p0", vision="viewer", speech="viewer")
    few = [queries(path) for path in paths]
    for n in range(1, 15):
        token_of(person(f"p{n}", vision="viewer", speech="viewer"))
    assert [queries(path) for path in paths] == few
    assert max(few) <= 5


def test_a_token_says_until_when(root):
    until = timezone.now() + timedelta(hours=3)
    made = root.post("tokens/", {"name": "x", "scopes": ["read"], "expires_at": until.isoformat()})
    assert made.json()["expires_at"].startswith(until.date().isoformat())
    late = root.post("tokens/", {"name": "x", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00Z"})
    assert late.json()["errors"].keys() == {"expires_at"}


def test_an_administrator_may_see_every_membership(root):
    person("ada", vision="viewer")
    assert root.get("people/ada/").json()["teams"] == [{"team": "vision", "role": "viewer"}]
    assert Membership.objects.count() == 1
