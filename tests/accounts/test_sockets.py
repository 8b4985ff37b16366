"""Who is behind a websocket, now and every time it is asked."""

import pytest
from django.test import Client
from django.utils import timezone

from accounts import selectors, sockets
from accounts.models import ApiToken, User
from accounts.sockets import SessionCredentials, TokenCredentials, credentials_of
from accounts.states import Right
from common.actor import Actor
from common.live.credentials import RightGone, SignedOut
from tests.cast import person, team, token_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]


def credentials(**headers: str) -> TokenCredentials | SessionCredentials:
    scope = {
        "type": "websocket",
        "client": ("10.0.0.7", 5000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    return credentials_of(scope)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch) -> None:
    monkeypatch.setattr(sockets, "REMEMBERED_SECONDS", 0.0)
    sockets._remembered.clear()


def actor_of(found: TokenCredentials | SessionCredentials) -> Actor:
    return found.actor()


@pytest.fixture
def browser() -> Client:
    client = Client()
    client.force_login(person("ada", vision="viewer"))
    return client


def cookie_of(client: Client) -> str:
    return f"sessionid={client.cookies['sessionid'].value}"


def test_a_session_cookie_brings_its_person(browser) -> None:
    found = credentials(cookie=cookie_of(browser))
    actor = actor_of(found)
    assert found.ambient
    assert (actor.name, actor.address, actor.via) == ("ada", "10.0.0.7", "web")
    assert selectors.may(actor, Right.READ, team("vision"))


def test_a_logout_ends_the_session_behind_an_open_socket(browser) -> None:
    found = credentials(cookie=cookie_of(browser))
    actor_of(found)
    browser.logout()
    with pytest.raises(SignedOut):
        actor_of(found)


def test_a_new_password_ends_the_session_behind_an_open_socket(browser) -> None:
    found = credentials(cookie=cookie_of(browser))
    actor_of(found)
    ada = User.objects.get(username="ada")
    ada.set_password("another good phrase")
    ada.save()
    with pytest.raises(SignedOut):
        actor_of(found)


def test_a_person_who_was_deactivated_has_no_right_any_more(browser) -> None:
    found = credentials(cookie=cookie_of(browser))
    User.objects.update(is_active=False)
    with pytest.raises(RightGone):
        actor_of(found)


def test_a_role_that_was_taken_away_counts_the_next_time_one_asks(browser) -> None:
    found = credentials(cookie=cookie_of(browser))
    assert selectors.may(actor_of(found), Right.READ)
    User.objects.get(username="ada").memberships.all().delete()
    assert not selectors.may(actor_of(found), Right.READ)


def test_a_token_brings_its_owner_within_its_scopes() -> None:
    text = token_of(person("ada", vision="admin"), scopes=["read"])
    found = credentials(authorization=f"Bearer {text}")
    actor = actor_of(found)
    assert not found.ambient
    assert (actor.name, actor.via) == ("ada", "api")
    assert selectors.may(actor, Right.READ, team("vision"))
    assert not selectors.may(actor, Right.MODELS_WRITE, team("vision"))


def test_a_token_that_is_revoked_has_no_right_any_more() -> None:
    found = credentials(authorization=f"Bearer {token_of(person('ada', vision='admin'))}")
    actor_of(found)
    ApiToken.objects.update(revoked_at=timezone.now())
    with pytest.raises(RightGone):
        actor_of(found)


def test_a_bad_token_brings_nobody_even_with_a_good_session(browser) -> None:
    text = token_of(person("bob", vision="viewer"))
    ApiToken.objects.all().delete()
    with pytest.raises(SignedOut):
        actor_of(credentials(cookie=cookie_of(browser), authorization=f"Bearer {text}"))


def test_many_pages_of_one_person_ask_the_database_once(
    browser, monkeypatch, django_assert_num_queries
) -> None:
    monkeypatch.setattr(sockets, "REMEMBERED_SECONDS", 60.0)
    found = credentials(cookie=cookie_of(browser))
    actor_of(found)
    with django_assert_num_queries(0):
        assert selectors.may(actor_of(credentials(cookie=cookie_of(browser))), Right.READ)


def test_without_either_it_is_nobody() -> None:
    for headers in ({}, {"cookie": "sessionid=made-up"}, {"authorization": "Basic YTpi"}):
        with pytest.raises(SignedOut):
            actor_of(credentials(**headers))
