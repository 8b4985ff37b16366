"""Accounts of machines hold tokens, and are nobody: they sign in nowhere and count as no administrator."""

from pathlib import Path

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from django.test import Client

from accounts import actors, selectors
from accounts.errors import LastAdmin
from accounts.grants import Grants
from accounts.models import Membership, User
from accounts.services import people, teams, tokens
from accounts.states import Right
from common.errors import Conflict, Invalid
from common.sessions import SessionStore
from tests.cast import PASSWORD, SYSTEM, Api, api, person, team, token_of

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


@pytest.fixture
def robot() -> User:
    return people.create_machine(actor=SYSTEM, username="workers", label="Model workers")


def test_a_machine_may_report_fetch_and_load_and_nothing_else_whatever_its_token_says(robot):
    Membership.objects.create(user=robot, team=team("vision"), role="admin")
    actor = actors.of_token(tokens.use_token(token_of(robot)))
    told = {Right.FLEET_REPORT, Right.FLEET_FETCH, Right.BENCHMARKS_LOAD, Right.OPTIMIZATIONS_RUN}
    assert actors.read_grants(actor) == Grants(everywhere=frozenset(told))
    assert api(robot).get("people/admin/").status_code == 404
    with pytest.raises(Invalid, match=r"no right to people\.admin"):
        tokens.create_token(actor=SYSTEM, owner=robot, name="x", scopes=[Right.PEOPLE_ADMIN])


def test_no_door_makes_a_machine_somebody(robot):
    root = person("root", superuser=True)
    with pytest.raises(Conflict, match="machine account"):
        people.set_password(actor=SYSTEM, user=robot, password="a long good phrase")
    with pytest.raises(Conflict, match="machine account"):
        teams.set_role(actor=SYSTEM, user=robot, team=team("vision"), role="admin")
    answers = [
        api(root).patch("people/workers/", {"is_superuser": True}),
        api(root).post("people/workers/password/", {"password": PASSWORD}),
        api(root).post("teams/vision/members/", {"username": "workers", "role": "admin"}),
    ]
    assert [answer.status_code for answer in answers] == [409, 409, 409]
    client = Client()
    client.force_login(root)
    page = client.get("/settings/people/workers/").content.decode()
    assert "Machine account" in page
    assert "Set password" not in page
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.filter(pk=robot.pk).update(is_superuser=True)


def test_a_machine_signs_in_nowhere_not_even_with_a_password_or_a_session(robot, client):
    robot.set_password(PASSWORD)
    robot.save()
    for door in (LOGIN, "/admin/login/"):
        client.post(door, {"login": "workers", "password": PASSWORD})
        assert client.get("/api/v1/me/").status_code == 401
        assert "/login/" in client.get("/admin/")["Location"]
    request = HttpRequest()
    session = Client()
    session.force_login(person("ada"))
    request.session = SessionStore(session.cookies["sessionid"].value)
    assert get_user(request).username == "ada"
    request.session["_auth_user_id"] = str(robot.pk)
    request.session["_auth_user_hash"] = robot.get_session_auth_hash()
    assert get_user(request).is_anonymous


@pytest.mark.usefixtures("robot")
def test_the_last_person_who_administers_stays_whatever_is_tried():
    root = person("root", superuser=True)
    nobody = person("sso", superuser=True)
    nobody.set_unusable_password()
    nobody.save()
    assert list(selectors.administrators()) == [root]
    client = Client()
    client.force_login(root)
    for change in ({"is_superuser": False}, {"is_active": False}):
        with pytest.raises(LastAdmin, match="Nobody but root"):
            people.change_user(actor=SYSTEM, user=root, **change)
        assert api(root).patch("people/root/", change).status_code == 409
    page = client.post("/settings/people/root/", {"revision": root.revision})
    assert "Nobody but root can sign in" in page.content.decode()
    client.post("/settings/people/root/active/", {"active": "no", "reason": "bye"})
    assert client.post(f"/admin/accounts/user/{root.pk}/delete/", {"post": "yes"}).status_code == 403
    change = {"username": "root", "is_superuser": ""}
    assert client.post(f"/admin/accounts/user/{root.pk}/change/", change).status_code == 403
    assert api(root).delete("people/root/").status_code == 405
    assert list(selectors.administrators()) == [root]


def test_who_signs_in_elsewhere_counts_while_single_sign_on_is_there(settings):
    sso = person("sso", superuser=True)
    sso.set_unusable_password()
    sso.save()
    SocialAccount.objects.create(user=sso, provider="openid_connect", uid="7")
    assert not selectors.administrators().exists()
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {}}
    assert list(selectors.administrators()) == [sso]


@pytest.mark.usefixtures("robot")
def test_who_locked_everybody_out_gets_back_in(tmp_path: Path, settings):
    settings.AXES_FAILURE_LIMIT = 2
    root = person("Root", superuser=True)
    User.objects.filter(pk=root.pk).update(is_active=False, is_superuser=False, is_staff=False)
    for _ in range(3):
        locked = Client().post(LOGIN, {"login": "root", "password": "wrong"})
    assert locked.status_code == 429
    call_command("bootstrap_admin", reset=True, username="root", home=tmp_path)
    password, token = ((tmp_path / name).read_text().strip() for name in ("admin-password", "admin-token"))
    assert Client().post(LOGIN, {"login": "root", "password": password}).status_code == 302
    assert Api(token).get("me/").json()["is_superuser"]
    with pytest.raises(CommandError, match="machine account"):
        call_command("bootstrap_admin", reset=True, username="workers", home=tmp_path)
