"""The door: passwords, lockout, sign-out, and who may enter Django's admin."""

import asyncio
from datetime import UTC, timedelta

import pytest
from axes.models import AccessAttempt
from django.test import AsyncClient, Client
from django.utils import timezone

from accounts.services import people
from common.models import AuditRecord
from tests.cast import PASSWORD, SYSTEM, person

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
LOGIN = "/accounts/login/"


@pytest.fixture(autouse=True)
def _three_failures_lock(settings):
    settings.AXES_FAILURE_LIMIT = 3


def sign_in(client: Client, username: str = "ada", password: str = PASSWORD, **extra: str):
    return client.post(LOGIN, {"login": username, "password": password}, **extra)


def signed_in(client: Client) -> bool:
    return client.get("/api/v1/me/").status_code == 200


def test_the_right_password_opens_the_door_and_is_recorded(client):
    person("ada")
    response = sign_in(client)
    assert (response.status_code, response["Location"]) == (302, "/")
    assert signed_in(client)
    row = AuditRecord.objects.get()
    assert (row.action, row.actor, row.address) == ("session.login", "ada", "127.0.0.1")


def test_the_login_page_says_what_is_wrong_and_not_which_part(client):
    person("ada")
    page = client.get(LOGIN)
    assert page.status_code == 200
    assert b"Sign in" in page.content
    assert b"sign up" not in page.content.lower()
    for attempt in (sign_in(client, password="wrong"), sign_in(client, "nobody")):
        assert attempt.status_code == 200
        assert b"not correct" in attempt.content
        assert b"wrong" not in attempt.content
    assert not signed_in(client)


def test_a_name_is_found_in_any_case(client):
    person("Ada")
    sign_in(client, "aDA")
    assert signed_in(client)


def test_one_comes_back_to_where_one_was_but_never_to_another_host(client):
    person("ada")
    sent = {"login": "ada", "password": PASSWORD}
    assert client.post(f"{LOGIN}?next=/releases/7/", sent)["Location"] == "/releases/7/"
    client.logout()
    assert client.post(f"{LOGIN}?next=https://evil.example/", sent)["Location"] == "/"


def test_after_enough_failures_even_the_right_password_is_refused_and_the_page_says_so(client):
    person("ada")
    answers = [sign_in(client, password="wrong").status_code for _ in range(3)]
    assert answers == [200, 200, 429]
    locked = sign_in(client)
    assert locked.status_code == 429
    assert b"locked" in locked.content
    assert b"3 sign-ins failed" in locked.content
    assert b"ask an administrator to set a new one" in locked.content
    until = AccessAttempt.objects.get().attempt_time + timedelta(minutes=15)
    assert f'datetime="{until.astimezone(UTC).isoformat(timespec="seconds")}"' in locked.content.decode()
    assert 800 < int(locked["Retry-After"]) <= 900
    assert not signed_in(client)
    assert AuditRecord.objects.get().action == "session.lockout"


def test_writing_the_name_differently_does_not_buy_more_attempts(client):
    person("ada")
    for name in ("ada", "ADA", " Ada "):
        last = sign_in(client, name, "wrong")
    assert last.status_code == 429


def test_a_lockout_holds_for_that_name_from_that_address_only(client):
    person("ada"), person("bob")
    for _ in range(3):
        sign_in(client, password="wrong")
    assert sign_in(client, "bob").status_code == 302
    assert sign_in(Client(), REMOTE_ADDR="10.1.1.1").status_code == 302


def test_a_lockout_is_remembered_by_the_database_and_ends(client):
    person("ada")
    for _ in range(3):
        sign_in(client, password="wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=14))
    assert sign_in(Client()).status_code == 429
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(Client()).status_code == 302


def test_a_new_password_from_an_administrator_lifts_the_lockout(client):
    ada = person("ada")
    for _ in range(3):
        sign_in(client, password="wrong")
    people.set_password(actor=SYSTEM, user=ada, password="another good phrase")
    assert sign_in(client, password="another good phrase").status_code == 302


def test_attempts_during_a_lockout_do_not_prolong_it(client):
    person("ada")
    for _ in range(3):
        sign_in(client, password="wrong")
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=14))
    sign_in(client, password="wrong")
    assert AccessAttempt.objects.get().attempt_time < timezone.now() - timedelta(minutes=13)


def test_success_forgives_earlier_failures(client):
    person("ada")
    for _ in range(2):
        sign_in(client, password="wrong")
    sign_in(client)
    assert not AccessAttempt.objects.exists()


def test_passwords_are_not_kept_with_the_failures(client):
    sign_in(client, password="my-real-password-elsewhere")
    assert "my-real-password" not in str(list(AccessAttempt.objects.values()))


@pytest.mark.django_db(transaction=True)
def test_the_lockout_speaks_under_asgi_too():
    person("ada")

    async def fail_often():
        client = AsyncClient()
        return [await client.post(LOGIN, {"login": "ada", "password": "wrong"}) for _ in range(4)]

    answers = asyncio.run(fail_often())
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert b"locked" in answers[-1].content


def test_an_inactive_person_is_told_so(client):
    ada = person("ada")
    ada.is_active = False
    ada.save()
    assert sign_in(client)["Location"] == "/accounts/inactive/"
    assert b"not active" in client.get("/accounts/inactive/").content
    assert not signed_in(client)


def test_a_session_ends_when_its_person_becomes_inactive(client):
    ada = person("ada")
    sign_in(client)
    ada.is_active = False
    ada.save()
    assert not signed_in(client)


def test_signing_out_takes_a_post(client):
    person("ada")
    sign_in(client)
    assert client.get("/accounts/logout/").status_code == 200
    assert signed_in(client)
    assert client.post("/accounts/logout/").status_code == 302
    assert not signed_in(client)


def test_changing_the_password_takes_the_old_one_and_a_good_new_one(client):
    ada = person("ada")
    sign_in(client)
    form = {"password1": "a new good phrase", "password2": "a new good phrase"}
    assert (
        b"current password" in client.post("/accounts/password/change/", {"oldpassword": "x"} | form).content
    )
    weak = {"oldpassword": PASSWORD, "password1": "password12", "password2": "password12"}
    assert client.post("/accounts/password/change/", weak).status_code == 200
    assert client.post("/accounts/password/change/", {"oldpassword": PASSWORD} | form).status_code == 302
    ada.refresh_from_db()
    assert ada.check_password("a new good phrase")
    assert AuditRecord.objects.latest("seq").action == "user.change_password"
    assert signed_in(client)
    other = Client()
    assert sign_in(other).status_code == 200


def test_someone_without_a_password_here_is_sent_to_where_it_is(client):
    ada = person("ada")
    ada.set_unusable_password()
    ada.save()
    client.force_login(ada)
    page = client.get("/accounts/password/change/", follow=True)
    assert b"managed elsewhere" in page.content


@pytest.mark.parametrize("path", ["signup/", "email/", "password/reset/", "3rdparty/", "login/code/"])
def test_what_we_do_not_offer_is_not_there(client, path):
    assert client.get(f"/accounts/{path}").status_code == 404


def test_the_admin_has_no_login_of_its_own(client):
    response = client.get("/admin/login/?next=/admin/")
    assert response["Location"].startswith(LOGIN)
    attempt = client.post("/admin/login/", {"username": "ada", "password": PASSWORD})
    assert attempt["Location"].startswith(LOGIN)


def test_the_admin_changes_no_password_behind_the_records_back(client):
    client.force_login(person("root", superuser=True))
    assert client.get("/admin/password_change/")["Location"] == "/accounts/password/change/"


def test_only_administrators_enter_the_admin_and_only_to_look(client):
    client.force_login(person("ada", vision="admin"))
    assert client.get("/admin/", follow=True).status_code == 403
    root = person("root", superuser=True)
    client.force_login(root)
    for page in ("user", "team", "membership", "apitoken"):
        assert client.get(f"/admin/accounts/{page}/").status_code == 200
        assert client.get(f"/admin/accounts/{page}/add/").status_code == 403
    shown = client.get(f"/admin/accounts/user/{root.pk}/change/").content.decode()
    assert "md5$" not in shown
    assert client.post(f"/admin/accounts/user/{root.pk}/delete/").status_code == 403


def test_the_login_form_needs_its_csrf_token():
    person("ada")
    assert sign_in(Client(enforce_csrf_checks=True)).status_code == 403
