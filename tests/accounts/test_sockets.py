"""Who is behind a websocket."""

import asyncio

import pytest
from channels.auth import AuthMiddlewareStack
from django.test import Client

from accounts import selectors
from accounts.models import ApiToken
from accounts.sockets import ActorOfSocket
from accounts.states import Right
from tests.cast import person, team, token_of

pytestmark = pytest.mark.django_db(transaction=True)


def actor_behind(**headers: str):
    found = []

    async def app(scope, receive, send):
        found.append(scope["actor"])

    scope = {
        "type": "websocket",
        "path": "/ws/fleet/",
        "client": ("10.0.0.7", 5000),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(AuthMiddlewareStack(ActorOfSocket(app))(scope, None, None))
    return found[0]


def test_a_session_cookie_brings_its_person():
    client = Client()
    client.force_login(person("ada", vision="viewer"))
    actor = actor_behind(cookie=f"sessionid={client.cookies['sessionid'].value}")
    assert (actor.name, actor.address, actor.via) == ("ada", "10.0.0.7", "web")
    assert selectors.may(actor, Right.READ, team("vision"))


def test_a_token_brings_its_owner_within_its_scopes():
    actor = actor_behind(authorization=f"Bearer {token_of(person('ada', vision='admin'), scopes=['read'])}")
    assert (actor.name, actor.via) == ("ada", "api")
    assert selectors.may(actor, Right.READ, team("vision"))
    assert not selectors.may(actor, Right.MODELS_WRITE, team("vision"))


def test_a_bad_token_brings_nobody_even_with_a_good_session():
    client = Client()
    client.force_login(person("ada", vision="viewer"))
    text = token_of(person("bob", vision="viewer"))
    ApiToken.objects.all().delete()
    actor = actor_behind(
        cookie=f"sessionid={client.cookies['sessionid'].value}", authorization=f"Bearer {text}"
    )
    assert actor.user_id is None
    assert not selectors.may(actor, Right.READ, team("vision"))


def test_without_either_it_is_nobody():
    assert actor_behind().user_id is None
