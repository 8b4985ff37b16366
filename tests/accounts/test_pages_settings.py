"""The settings pages, as a signed-in person gets them."""

import re

import pytest
from django.test import Client

from accounts.models import ApiToken, Membership, Team, User
from common.models import AuditRecord
from tests import cast
from tests.cast import Api, client_of

PART = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


def text_of(answer) -> str:
    return answer.content.decode()


@pytest.fixture
def root() -> User:
    return cast.person("root", superuser=True)


@pytest.fixture
def ada() -> User:
    """The admin of one team."""
    return cast.person("ada", vision="admin")


PAGES = ["account", "tokens", "tokens/+new", "people", "people/ada", "people/+new", "teams", "teams/vision"]


@pytest.mark.parametrize("path", PAGES)
def test_every_page_asks_to_sign_in_and_then_opens(ada, path):
    assert Client().get(f"/settings/{path}/").status_code == 302
    assert client_of(ada).get(f"/settings/{path}/").status_code == 200


def test_a_new_token_is_shown_once_and_works(ada):
    client = client_of(ada)
    given = {"name": "ci", "scopes": ["read"], "team": "", "days": "90"}
    answer = client.post("/settings/tokens/+new/", given)
    assert answer.status_code == 201
    assert answer["Cache-Control"] == "no-store"
    secret = re.search(r'<code id="secret">(slp_\w+)</code>', text_of(answer))[1]
    assert Api(secret).get("me/").status_code == 200
    assert secret not in text_of(client.get("/settings/tokens/"))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "", "scopes": ["read"], "days": "90"}, "name"),
        ({"name": "ci", "days": "90"}, "scopes"),
        ({"name": "ci", "scopes": ["everything"], "days": "90"}, "scopes"),
        ({"name": "ci", "scopes": ["read"], "days": "9999"}, "days"),
    ],
)
def test_what_is_wrong_with_a_token_is_told_at_its_field(ada, given, field):
    answer = client_of(ada).post("/settings/tokens/+new/", given)
    assert answer.status_code == 422
    assert f'id="id_{field}_error"' in text_of(answer)
    assert not ApiToken.objects.exists()


def test_scopes_are_grouped_preset_and_those_that_one_has(ada):
    page = text_of(client_of(ada).get("/settings/tokens/+new/"))
    groups = re.findall(r"<legend>([^<]+)</legend>", page.partition("<main")[2])
    assert groups == [
        "General", "Models", "Services and releases", "Jobs", "Fleet", "Benchmarks", "Capacity",
        "Optimised versions", "Task graphs", "Administration",
    ]  # fmt: skip
    preset = re.search(r'data-ticks="([^"]*)">CI pipeline: push and release<', page)[1]
    assert set(preset.split()) == {
        "read", "models.write", "releases.start", "jobs.write", "benchmarks.write", "optimizations.write"
    }  # fmt: skip
    viewer = text_of(client_of(cast.person("eve", vision="viewer")).get("/settings/tokens/+new/"))
    assert re.findall(r'name="scopes" value="([^"]+)"', viewer) == ["read", "webhooks.write"]
    assert "Approver bot" not in viewer


def test_a_preset_gives_its_scopes_over_rest(ada):
    answer = cast.api(ada).post("tokens/", {"name": "ci", "preset": "ci", "scopes": ["audit.read"]})
    assert answer.json()["scopes"] == [
        "audit.read", "benchmarks.write", "jobs.write", "models.write", "optimizations.write", "read",
        "releases.start",
    ]  # fmt: skip
    assert cast.api(ada).post("tokens/", {"name": "ci"}).status_code == 400


def test_a_token_lives_as_long_as_the_longest_choice_says(ada):
    given = {"name": "ci", "scopes": ["read"], "days": "366"}
    assert client_of(ada).post("/settings/tokens/+new/", given).status_code == 201


def test_a_token_is_revoked_by_its_owner_and_not_found_by_others(ada):
    text = cast.token_of(ada)
    token = ApiToken.objects.get()
    stranger = client_of(cast.person("eve", vision="admin"))
    assert stranger.post(f"/settings/tokens/{token.pk}/revoke/", headers=PART).status_code == 404
    assert client_of(ada).post(f"/settings/tokens/{token.pk}/revoke/", headers=PART).status_code == 204
    assert Api(text).get("me/").status_code == 401


def test_one_changes_ones_own_name(ada):
    given = {"first_name": "Ada", "last_name": "Lovelace", "email": "ada@example.org"}
    assert client_of(ada).post("/settings/account/", given).status_code == 302
    ada.refresh_from_db()
    assert ada.get_full_name() == "Ada Lovelace"
    bad = client_of(ada).post("/settings/account/", given | {"email": "nowhere"})
    assert bad.status_code == 422
    assert 'id="id_email_error"' in text_of(bad)


def test_a_team_admin_adds_a_person_to_that_team_only(ada):
    client = client_of(ada)
    given = {"username": "new", "password": "a long enough phrase", "team": "vision", "role": "viewer"}
    assert client.post("/settings/people/+new/", given)["Location"] == "/settings/people/new/"
    assert Membership.objects.get(user__username="new").role == "viewer"
    nowhere = client.post("/settings/people/+new/", given | {"username": "other", "team": ""})
    assert nowhere.status_code == 422
    assert 'id="id_team_error"' in text_of(nowhere)
    weak = client.post("/settings/people/+new/", given | {"username": "weak", "password": "x"})
    assert 'id="id_password_error"' in text_of(weak)
    twice = client.post("/settings/people/+new/", given)
    assert twice.status_code == 422


def test_only_administrators_change_others(ada, root):
    bob = cast.person("bob", vision="viewer")
    given = {"first_name": "Bob", "last_name": "", "email": "", "revision": bob.revision}
    refused = client_of(ada).post("/settings/people/bob/", given)
    assert refused.status_code == 422
    assert "of the whole installation" in text_of(refused)
    assert client_of(root).post("/settings/people/bob/", given).status_code == 302
    late = client_of(root).post("/settings/people/bob/", given | {"first_name": "B"})
    assert "changed by someone else" in text_of(late)


def test_deactivating_needs_a_reason_and_can_be_undone(root, ada):
    client = client_of(root)
    assert client.post("/settings/people/ada/active/", {"reason": ""}, headers=PART).status_code == 422
    assert client.post("/settings/people/ada/active/", {"reason": "left"}, headers=PART).status_code == 204
    assert AuditRecord.objects.latest("seq").reason == "left"
    ada.refresh_from_db()
    assert not ada.is_active
    assert client.post("/settings/people/ada/active/", {"active": "yes"}, headers=PART).status_code == 204
    ada.refresh_from_db()
    assert ada.is_active


def test_the_last_administrator_stays(root):
    answer = client_of(root).post("/settings/people/root/active/", {"reason": "bye"}, headers=PART)
    assert answer.status_code == 422
    assert "Nobody but root can sign in" in text_of(answer)


def test_a_role_is_given_changed_and_taken(ada):
    client = client_of(ada)
    cast.person("bob")
    for role in ("viewer", "developer"):
        given = {"username": "bob", "role": role}
        assert client.post("/settings/teams/vision/members/", given, headers=PART).status_code == 204
        assert Membership.objects.get(user__username="bob").role == role
    unknown = client.post(
        "/settings/teams/vision/members/", {"username": "x", "role": "viewer"}, headers=PART
    )
    assert "There is no person named x" in text_of(unknown)
    remove = "/settings/teams/vision/members/bob/remove/"
    assert client.post(remove, {"reason": " "}, headers=PART).status_code == 422
    assert client.post(remove, {"reason": "moved"}, headers=PART).status_code == 204
    assert not Membership.objects.filter(user__username="bob").exists()


def test_a_team_keeps_its_last_admin(ada):
    given = {"username": "ada", "role": "viewer"}
    answer = client_of(ada).post("/settings/teams/vision/members/", given, headers=PART)
    assert answer.status_code == 422
    assert "left without an admin" in text_of(answer)


def test_a_viewer_is_offered_no_change_of_the_team(ada):
    page = text_of(client_of(cast.person("vic", vision="viewer")).get("/settings/teams/vision/"))
    assert "Add member" not in page
    assert "role-form" not in page


def test_a_team_is_made_described_and_deleted(root):
    client = client_of(root)
    made = client.post("/settings/teams/+new/", {"name": "speech", "description": "Voices"})
    assert made["Location"] == "/settings/teams/speech/"
    bad = client.post("/settings/teams/+new/", {"name": "No Blanks"})
    assert bad.status_code == 422
    assert 'id="id_name_error"' in text_of(bad)
    assert client.post("/settings/teams/speech/", {"description": "New words"}).status_code == 302
    assert Team.objects.get(name="speech").description == "New words"
    assert client.post("/settings/teams/speech/delete/").status_code == 302
    assert not Team.objects.filter(name="speech").exists()


def test_what_belongs_to_another_team_is_not_there(ada):
    stranger = client_of(cast.person("eve", other="admin"))
    for path in ("people/ada", "teams/vision"):
        assert stranger.get(f"/settings/{path}/").status_code == 404


@pytest.mark.parametrize("path", ["people", "teams", "tokens"])
def test_longer_lists_ask_no_more_questions(root, path, django_assert_max_num_queries):
    client = client_of(root)
    client.get(f"/settings/{path}/")
    with django_assert_max_num_queries(8):
        client.get(f"/settings/{path}/")
    for number in range(20):
        cast.token_of(cast.person(f"p{number}", **{f"t{number}": "viewer"}))
    with django_assert_max_num_queries(8):
        client.get(f"/settings/{path}/")


@pytest.mark.parametrize(
    ("place", "who"),
    [("people", "Admins of a team add people"), ("teams", "Administrators of the installation")],
)
def test_who_may_not_make_something_is_told_who_does(place, who):
    eve = client_of(cast.person("eve", vision="developer"))
    for answer in (eve.get(f"/settings/{place}/+new/"), eve.post(f"/settings/{place}/+new/", {})):
        assert answer.status_code == 403
        assert who in text_of(answer)
        assert 'name="csrfmiddlewaretoken"' not in text_of(answer).partition("<main")[2]
