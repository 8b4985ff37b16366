"""SCIM 2.0 as Okta and Microsoft Entra really send it; what a deactivation ends; who may not."""

from typing import Any

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import Membership, User
from accounts.services.people import create_machine
from accounts.states import AccountKind
from common.models import AuditRecord
from identity.models import Identity
from identity.services.rules import create_rule
from tests.cast import SYSTEM, Api, client_of, person, team, token_of
from tests.identity.conftest import sign_in
from tests.identity.test_group_rules import membership
from tests.identity.test_sign_out import is_signed_in

pytestmark = pytest.mark.django_db
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Directory:
    """The identity provider with its token."""

    def __init__(self, token: str) -> None:
        self.token = token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return Client().generic(
            method,
            f"/scim/v2/{path}",
            b"" if body is None else orjson.dumps(body),
            content_type="application/scim+json",
            headers={"Authorization": f"Bearer {self.token}"},
        )

    def make(self, username: str, **more: Any) -> str:
        made = self.call("POST", "Users", {"userName": username, "active": True, **more})
        assert made.status_code == 201, made.content
        return made.json()["id"]

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        return self.call("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})


@pytest.fixture
def directory() -> Directory:
    account = create_machine(actor=SYSTEM, username="scim", kind=AccountKind.DIRECTORY)
    return Directory(token_of(account, scopes=["people.provision"]))


def test_okta_makes_finds_changes_and_deactivates_a_person(directory):
    nobody = directory.call("GET", 'Users?filter=userName eq "ada@acme.org"&startIndex=1&count=100').json()
    assert (nobody["totalResults"], nobody["Resources"]) == (0, [])
    made = directory.call(
        "POST",
        "Users",
        {
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
            "userName": "ada@acme.org",
            "name": {"givenName": "Ada", "familyName": "Lovelace"},
            "emails": [{"primary": True, "value": "ada@acme.org", "type": "work"}],
            "displayName": "Ada Lovelace",
            "locale": "en-US",
            "externalId": "00ujl29u0le5T6Aj10h7",
            "groups": [],
            "password": "1mz050nq",
            "active": True,
        },
    )
    assert made.status_code == 201
    assert made["Content-Type"] == "application/scim+json"
    shown = made.json()
    assert made["Location"].endswith(f"/scim/v2/Users/{shown['id']}")
    assert (shown["userName"], shown["active"]) == ("ada@acme.org", True)
    assert shown["externalId"] == "00ujl29u0le5T6Aj10h7"
    assert not User.objects.get(pk=shown["id"]).has_usable_password()
    found = directory.call("GET", 'Users?filter=userName eq "ADA@acme.org"').json()
    assert [one["id"] for one in found["Resources"]] == [shown["id"]]
    off = directory.patch(f"Users/{shown['id']}", {"op": "replace", "value": {"active": False}})
    assert (off.status_code, off.json()["active"]) == (200, False)


def test_entra_deactivates_with_a_word_and_changes_by_paths(directory):
    pk = directory.make("ada@acme.org", externalId="0a21f0f2")
    answer = directory.patch(
        f"Users/{pk}",
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "ada@new.org"},
        {"op": "Replace", "path": "name.givenName", "value": "Ada"},
        {"op": "Add", "path": "title", "value": "Countess"},
    )
    assert answer.status_code == 200
    ada = User.objects.get(pk=pk)
    assert (ada.is_active, ada.email, ada.first_name) == (False, "ada@new.org", "Ada")
    back = directory.patch(f"Users/{pk}", {"op": "Replace", "path": "active", "value": "True"})
    assert back.json()["active"] is True


def test_a_deactivation_ends_sessions_and_tokens_at_once(directory):
    pk = directory.make("ada")
    ada = User.objects.get(pk=pk)
    browser, token = client_of(ada), Api(token_of(ada))
    assert is_signed_in(browser)
    directory.patch(f"Users/{pk}", {"op": "replace", "path": "active", "value": False})
    assert not is_signed_in(browser)
    refused = token.get("me/")
    assert (refused.status_code, "no longer active" in refused.json()["detail"]) == (401, True)
    directory.patch(f"Users/{pk}", {"op": "replace", "path": "active", "value": True})
    assert not is_signed_in(browser)
    assert AuditRecord.objects.filter(action="user.change", actor="scim").count() == 2


def test_a_deleted_person_leaves_a_name_without_rights_and_another_may_have_it(directory):
    pk = directory.make("ada", externalId="1")
    ada = User.objects.get(pk=pk)
    Membership.objects.create(user=ada, team=team("vision"), role="admin")
    token = Api(token_of(ada))
    assert directory.call("DELETE", f"Users/{pk}").status_code == 204
    assert directory.call("GET", f"Users/{pk}").status_code == 404
    assert token.get("me/").status_code == 401
    other = directory.make("ada", externalId="2")
    assert other != pk
    assert membership("ada") == {}


def test_put_replaces_and_lists_have_pages(directory):
    for number in range(5):
        directory.make(f"p{number}")
    page = directory.call("GET", "Users?startIndex=2&count=2").json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 2)
    assert [one["userName"] for one in page["Resources"]] == ["p1", "p2"]
    pk = page["Resources"][0]["id"]
    put = directory.call("PUT", f"Users/{pk}", {"userName": "renamed", "active": True, "id": pk})
    assert (put.status_code, put.json()["userName"]) == (200, "renamed")


def test_groups_feed_the_group_rules(directory):
    create_rule(actor=SYSTEM, pattern="ml-*", team=team("vision"), role="developer")
    ada, bob = directory.make("ada"), directory.make("bob")
    made = directory.call(
        "POST", "Groups", {"displayName": "ml-eu", "externalId": "8aa", "members": [{"value": ada}]}
    )
    assert made.status_code == 201
    at = f"Groups/{made.json()['id']}"
    assert membership("ada") == {"vision": "developer"}
    directory.patch(at, {"op": "Add", "path": "members", "value": [{"value": bob}]})
    directory.patch(at, {"op": "remove", "path": f'members[value eq "{ada}"]'})
    assert (membership("ada"), membership("bob")) == ({}, {"vision": "developer"})
    directory.patch(at, {"op": "Remove", "path": "members", "value": [{"value": bob}]})
    assert membership("bob") == {}
    directory.patch(at, {"op": "replace", "path": "members", "value": [{"value": ada}]})
    directory.patch(at, {"op": "replace", "value": {"id": "x", "displayName": "other"}})
    assert membership("ada") == {}
    directory.call("PUT", at, {"displayName": "ml-us", "members": [{"value": bob}]})
    assert membership("bob") == {"vision": "developer"}
    shown = directory.call("GET", 'Groups?excludedAttributes=members&filter=displayName eq "ml-us"').json()
    assert "members" not in shown["Resources"][0]
    assert directory.call("GET", at).json()["members"][0]["display"] == "bob"
    assert directory.call("DELETE", at).status_code == 204
    assert membership("bob") == {}


def test_who_was_provisioned_signs_in_as_themselves(directory, provider, client):
    create_rule(actor=SYSTEM, pattern="ml-*", team=team("vision"), role="viewer")
    pk = directory.make("ada@acme.org", externalId="7")
    directory.call("POST", "Groups", {"displayName": "ml-eu", "members": [{"value": pk}]})
    sign_in(client, provider, sub="7", preferred_username="someone.else")
    assert client.get("/api/v1/me/").json()["username"] == "ada@acme.org"
    assert membership("ada@acme.org") == {"vision": "viewer"}
    directory.patch(f"Users/{pk}", {"op": "replace", "path": "active", "value": False})
    sign_in(Client(), provider, sub="7", preferred_username="ada")
    assert not is_signed_in(client)
    assert User.objects.filter(username__startswith="ada").count() == 1


@pytest.mark.parametrize("claims", [{"sub": "8"}, {"sub": "8", "externalId": "7"}, {"sub": ""}])
def test_nobody_else_signs_in_as_them(directory, provider, client, claims):
    directory.make("ada@acme.org", externalId="7")
    sign_in(client, provider, preferred_username="ada@acme.org", email="ada@acme.org", **claims)
    if is_signed_in(client):
        assert client.get("/api/v1/me/").json()["username"] != "ada@acme.org"


def test_an_account_with_a_password_is_linked_by_no_claim(directory, provider, client):
    root = person("root", superuser=True)
    directory.patch(f"Users/{root.pk}", {"op": "add", "path": "externalId", "value": "7"})
    assert Identity.objects.get(user=root).external_id == "7"
    sign_in(client, provider, sub="7", preferred_username="root")
    assert client.get("/api/v1/me/").json()["username"] != "root"


def test_the_last_administrator_and_the_break_glass_account_are_out_of_reach(directory, settings):
    root = person("root", superuser=True)
    off = {"op": "replace", "path": "active", "value": False}
    assert directory.patch(f"Users/{root.pk}", off).status_code == 409
    assert directory.call("DELETE", f"Users/{root.pk}").status_code == 409
    glass = person("glass", superuser=True)
    settings.SLIPWAY_BREAK_GLASS_ACCOUNT = "glass"
    assert directory.patch(f"Users/{glass.pk}", off).status_code == 404
    assert directory.call("POST", "Users", {"userName": "Glass"}).status_code == 409
    assert User.objects.filter(is_active=True, username__in=["root", "glass"]).count() == 2


def test_machines_are_no_people(directory):
    robot = create_machine(actor=SYSTEM, username="robot")
    assert directory.call("GET", f"Users/{robot.pk}").status_code == 404
    assert directory.call("GET", "Users").json()["totalResults"] == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "Users", {"userName": "scim"}, 409),
        ("POST", "Users", {}, 400),
        ("POST", "Users", {"userName": "a b"}, 400),
        ("POST", "Users", {"userName": 7}, 400),
        ("POST", "Users", [], 400),
        ("POST", "Users", {"userName": "x", "active": "maybe"}, 400),
        ("GET", 'Users?filter=userName sw "a"', None, 400),
        ("GET", 'Users?filter=password eq "a"', None, 400),
        ("GET", "Users?count=x", None, 400),
        ("GET", "Users/999999", None, 404),
        ("GET", "Users/x", None, 404),
        ("PATCH", "Users/999999", {"Operations": []}, 404),
        ("POST", "Groups", {"displayName": "g", "members": [{"value": "999"}]}, 404),
        ("POST", "Groups", {"displayName": ""}, 400),
        ("PUT", "Groups/1", {"displayName": "g"}, 404),
    ],
)
def test_what_cannot_be_is_refused_in_scim_s_words(directory, method, path, body, status):
    answer = directory.call(method, path, body)
    assert answer.status_code == status, answer.content
    told = answer.json()
    assert told["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert told["status"] == str(status)
    assert told["detail"]


def test_it_says_what_it_can(directory):
    assert directory.call("GET", "ServiceProviderConfig").json()["patch"] == {"supported": True}
    assert {one["name"] for one in directory.call("GET", "Schemas").json()["Resources"]} == {"User", "Group"}
    assert directory.call("GET", "ResourceTypes").json()["totalResults"] == 2


def test_only_the_right_opens_it():
    admin = person("eve", vision="admin")
    root = person("root", superuser=True)
    robot = create_machine(actor=SYSTEM, username="robot")
    for owner, scopes in (
        (admin, ["people.provision"]),
        (root, ["people.admin"]),
        (robot, ["people.provision"]),
    ):
        assert Directory(token_of(owner, scopes=scopes)).call("GET", "Users").status_code == 403
    assert Directory("slp_aaaaaaaaaa_" + "b" * 43).call("GET", "Users").status_code == 401
    assert client_of(root).get("/scim/v2/Users").status_code == 401
    forged = client_of(root).post("/scim/v2/Users", {"userName": "x"}, content_type="application/json")
    assert forged.status_code == 401


def test_the_server_s_shell_makes_the_token_of_the_directory(capsys):
    call_command("create_directory_token")
    token = capsys.readouterr().out.strip()
    assert Directory(token).call("GET", "Users").status_code == 200
    assert Api(token).get("me/").json()["everywhere"] == ["people.provision"]
    person("ada")
    with pytest.raises(CommandError):
        call_command("create_directory_token", username="ada")
