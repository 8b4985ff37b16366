"""Sessions: what the table holds opens nothing, and all that Django does with sessions works."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from common.sessions import SessionStore
from tests.cast import PASSWORD, person

pytestmark = pytest.mark.django_db
LOGIN = "/accounts/login/"


def sign_in(client: Client) -> str:
    """The key that the browser holds then."""
    assert client.post(LOGIN, {"login": "ada", "password": PASSWORD}).status_code == 302
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def who(session_key: str) -> int:
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = session_key
    return client.get("/api/v1/me/").status_code


def test_a_key_from_a_copy_of_the_database_opens_nothing(client):
    person("ada")
    key = sign_in(client)
    row = Session.objects.get()
    assert who(key) == 200
    assert key not in str(Session.objects.values().get())
    assert who(row.session_key) == 401


def test_a_session_ends_with_its_sign_out_its_time_and_a_new_one(client):
    person("ada")
    visitor_key = client.session.session_key
    key = sign_in(client)
    assert key != visitor_key
    client.post("/accounts/logout/")
    assert (who(key), Session.objects.count()) == (401, 0)
    key = sign_in(client)
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert who(key) == 401
    fresh = sign_in(Client())
    assert who(fresh) == 200
    assert Session.objects.count() == 1, "what had expired is gone"


def test_a_changed_password_keeps_this_session_and_ends_the_others(client):
    person("ada")
    here, elsewhere = sign_in(client), sign_in(Client())
    new = {"oldpassword": PASSWORD, "password1": "a new good phrase", "password2": "a new good phrase"}
    assert client.post("/accounts/password/change/", new).status_code == 302
    cycled = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert (who(here), who(elsewhere), who(cycled)) == (401, 401, 200)


def test_a_key_that_is_taken_is_not_taken_again(monkeypatch):
    taken = SessionStore()
    taken["person"] = "ada"
    taken.create()
    offered = iter([taken.session_key, "another0key"])
    monkeypatch.setattr("django.contrib.sessions.backends.base.get_random_string", lambda *_: next(offered))
    fresh = SessionStore()
    fresh.create()
    assert fresh.session_key == "another0key"
    assert SessionStore(taken.session_key)["person"] == "ada"


@pytest.mark.django_db(transaction=True)
def test_asynchronous_views_meet_the_same_sessions():
    async def live() -> tuple[bool, str, bool, object]:
        store = SessionStore()
        await store.aset("person", "ada")
        await store.asave()
        first = store.session_key
        await store.acycle_key()
        again = SessionStore(store.session_key)
        person = await again.aget("person")
        is_there = await store.aexists(store.session_key)
        await again.adelete()
        return await store.aexists(first), person, is_there, await SessionStore(store.session_key).aload()

    assert async_to_sync(live)() == (False, "ada", True, {})
    assert not Session.objects.exists()
