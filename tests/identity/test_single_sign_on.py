"""OpenID Connect: offered only when configured; who comes that way has an account and no team."""

import os
import subprocess
import sys

import pytest
from django.conf import settings as django_settings

from accounts.models import User
from common.models import AuditRecord
from tests.cast import PASSWORD, person
from tests.identity.conftest import START, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def test_without_settings_there_is_no_button_and_no_address(client):
    assert b"Sign in with" not in client.get("/accounts/login/").content
    assert client.post(START).status_code == 404


def test_with_settings_there_is_a_button(client, provider):
    page = client.get("/accounts/login/").content.decode()
    assert "Sign in with Example SSO" in page
    assert START in page


def test_a_new_person_gets_an_account_without_a_team_or_a_right(client, provider):
    answer = sign_in(
        client, provider, sub="7", preferred_username="ada", name="Ada Lovelace", email="a@b.org"
    )
    assert (answer.status_code, answer["Location"]) == (302, "/")
    shown = client.get("/api/v1/me/").json()
    assert shown["username"] == "ada"
    assert (shown["first_name"], shown["email"]) == ("Ada", "a@b.org")
    assert (shown["teams"], shown["everywhere"]) == ([], [])
    assert not User.objects.get().has_usable_password()
    assert list(AuditRecord.objects.order_by("seq").values_list("action", flat=True)) == [
        "user.create",
        "session.login",
    ]


def test_the_same_person_comes_back_to_the_same_account(client, provider):
    for name in ("ada", "ada.lovelace"):
        sign_in(client, provider, sub="7", preferred_username=name)
        client.logout()
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    "claims", [{"preferred_username": "root"}, {"preferred_username": "ROOT"}, {"email": "r@b.org"}]
)
def test_nobody_becomes_someone_else_by_bearing_a_name_or_a_mail(client, provider, claims):
    root = person("root", superuser=True)
    User.objects.filter(pk=root.pk).update(email="r@b.org")
    sign_in(client, provider, sub="666", **claims)
    shown = client.get("/api/v1/me/").json()
    assert shown["username"].lower() != "root"
    assert not shown["is_superuser"]
    assert User.objects.count() == 2


def test_a_person_without_any_name_still_gets_one(client, provider):
    sign_in(client, provider, sub="7")
    assert client.get("/api/v1/me/").json()["username"]


def test_an_inactive_person_does_not_come_in_that_way(client, provider):
    sign_in(client, provider, sub="7", preferred_username="ada")
    client.logout()
    User.objects.update(is_active=False)
    sign_in(client, provider, sub="7", preferred_username="ada")
    assert client.get("/api/v1/me/").status_code == 401


def test_a_forged_or_refused_answer_is_a_page_that_says_so(client, provider):
    client.post(START)
    forged = client.get(f"{START}callback/?code=x&state=forged")
    assert b"Single sign-on failed" in forged.content
    sent = client.post(START)
    state = sent["Location"].split("state=")[1].split("&")[0]
    refused = client.get(f"{START}callback/?error=server_error&state={state}")
    assert b"Single sign-on failed" in refused.content
    assert not User.objects.exists()


def test_a_provider_that_is_down_is_no_server_error(client, provider):
    provider.close()
    answer = client.post(START)
    assert answer.status_code == 502
    assert b"Single sign-on failed" in answer.content


def test_passwords_still_work_beside_it(client, provider):
    person("ada")
    assert client.post("/accounts/login/", {"login": "ada", "password": PASSWORD}).status_code == 302


def test_the_start_takes_a_post_so_that_no_link_signs_anyone_in(client, provider):
    assert client.get(START).status_code == 200
    assert b"Example SSO" in client.get(START).content


def test_half_of_the_settings_stop_the_process_naming_what_is_missing():
    environment = {
        **os.environ,
        "SLIPWAY_OIDC_SERVER_URL": "https://sso.example.org",
        "SLIPWAY_OIDC_CLIENT_ID": "slipway",
    }
    started = subprocess.run(
        [sys.executable, "-c", "import controlplane.settings.test"],
        cwd=django_settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.returncode == 2
    assert "SLIPWAY_OIDC_CLIENT_SECRET" in started.stderr
    assert "SLIPWAY_OIDC_CLIENT_ID" not in started.stderr
