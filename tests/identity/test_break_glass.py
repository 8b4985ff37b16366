"""Passwords are off: one account comes in by password, and everybody hears of it."""

import pytest
from django.test import Client

from accounts.models import WebhookEndpoint, WebhookEvent
from accounts.services.webhooks import create_webhook
from common.models import AuditRecord
from tests.cast import PASSWORD, SYSTEM, client_of, person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def off(settings, provider):
    settings.SLIPWAY_PASSWORD_LOGIN = False
    settings.SLIPWAY_BREAK_GLASS_ACCOUNT = "glass"


def enter(name: str):
    return Client().post("/accounts/login/", {"login": name, "password": PASSWORD})


def test_nobody_else_comes_in_by_password_and_all_get_the_same_answer():
    person("ada")
    answers = [enter(name) for name in ("ada", "nobody")]
    assert [one.status_code for one in answers] == [200, 200]
    assert all("Password sign-in is off. Use single sign-on." in one.content.decode() for one in answers)
    assert not AuditRecord.objects.filter(action="session.login").exists()


def test_its_sign_in_is_in_the_record_sent_out_and_shown_on_home():
    create_webhook(actor=SYSTEM, url="https://hooks.example.org/x", events=["session.break_glass"])
    assert WebhookEndpoint.objects.exists()
    person("glass", superuser=True)
    root = client_of(person("root", superuser=True))
    assert "Break-glass" not in root.get("/").content.decode()
    AuditRecord.objects.filter(action="session.login").count()
    assert enter("GLASS").status_code == 302
    assert AuditRecord.objects.filter(action="session.break_glass", actor="glass").count() == 1
    assert WebhookEvent.objects.get(type="session.break_glass").ids["username"] == "glass"
    assert "break-glass account glass signed in" in root.get("/").content.decode()
    assert "signed in" not in client_of(person("ada")).get("/").content.decode()


def test_the_page_says_how_to_sign_in(settings):
    shown = Client().get("/accounts/login/").content.decode()
    assert shown.index("Sign in with Example SSO") < shown.index("Break-glass account")
    settings.SLIPWAY_BREAK_GLASS_ACCOUNT = ""
    assert 'name="password"' not in Client().get("/accounts/login/").content.decode()


def test_its_password_is_locked_as_any_other(settings):
    settings.AXES_FAILURE_LIMIT = 2
    person("glass", superuser=True)
    for _ in range(2):
        Client().post("/accounts/login/", {"login": "glass", "password": "wrong"})
    assert enter("glass").status_code == 429
