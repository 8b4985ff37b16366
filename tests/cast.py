"""The cast of the tests: people, teams, tokens, and clients that speak for them."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson
from django.test import Client
from django.utils import timezone

from accounts import keys
from accounts.models import ApiToken, Membership, Team, User
from accounts.states import Right, Role
from common.actor import Actor

SYSTEM = Actor.system("test")
PASSWORD = "correct horse battery"


def person(username: str, *, superuser: bool = False, **roles: Role | str) -> User:
    """`person("ada", vision="developer")`; the teams are made when they are missing."""
    user = User.objects.create_user(username=username, password=PASSWORD)
    if superuser:
        User.objects.filter(pk=user.pk).update(is_superuser=True, is_staff=True)
        user.refresh_from_db()
    for name, role in roles.items():
        Membership.objects.create(user=user, team=team(name), role=role)
    return user


def team(name: str) -> Team:
    return Team.objects.get_or_create(name=name)[0]


def client_of(user: User) -> Client:
    """The browser of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return client


def token_of(owner: User, *, scopes: Any = None, only_team: Team | None = None, **fields: Any) -> str:
    """The whole text of a new token, with every scope unless told otherwise."""
    key = keys.new_key()
    ApiToken.objects.create(
        owner=owner,
        name="test",
        prefix=key.prefix,
        secret_hash=key.hash,
        scopes=sorted(Right.values if scopes is None else scopes),
        team=only_team,
        **{"expires_at": timezone.now() + timedelta(days=1)} | fields,
    )
    return key.text


@dataclass
class Api:
    """A client of the REST API: `Api(token).post("teams/", {"name": "x"})`. Paths are below `/api/v1/`."""

    token: str | None = None
    client: Client | None = None

    def __post_init__(self) -> None:
        self.client = self.client or Client()

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        assert self.client is not None
        return self.client.generic(
            method,
            path if path.startswith("/") else f"/api/v1/{path}",
            b"" if body is None else orjson.dumps(body),
            content_type="application/json",
            headers=given,
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.call("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("POST", path, body, **headers)

    def put(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PUT", path, body, **headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.call("PATCH", path, body, **headers)

    def delete(self, path: str, **headers: str) -> Any:
        return self.call("DELETE", path, **headers)


def api(user: User, **token: Any) -> Api:
    return Api(token_of(user, **token))
