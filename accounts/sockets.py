"""Who is behind a websocket: the browser's session, or a program's bearer token; asked again and again."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user
from django.http import HttpRequest, parse_cookie

from accounts import actors, services
from accounts.errors import BadToken
from accounts.models import User
from common.actor import Actor
from common.live import RightGone, SignedOut

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[Any]]


class TokenCredentials:
    """`Authorization: Bearer slp_...`: no browser sends it by itself."""

    ambient = False

    def __init__(self, text: str, *, address: str) -> None:
        self._text = text
        self._address = address
        self._has_worked = False

    async def actor(self) -> Actor:
        return await database_sync_to_async(self._actor)()  # type: ignore[no-any-return]

    def _actor(self) -> Actor:
        try:
            token = services.use_token(self._text)
        except BadToken:
            raise (RightGone if self._has_worked else SignedOut) from None
        self._has_worked = True
        return actors.of_token(token, address=self._address)


class SessionCredentials:
    """The session behind the cookie, read anew each time: it ends with a logout and a new password."""

    ambient = True

    def __init__(self, session_key: str | None, *, address: str) -> None:
        self._session_key = session_key
        self._address = address

    async def actor(self) -> Actor:
        return await database_sync_to_async(self._actor)()  # type: ignore[no-any-return]

    def _actor(self) -> Actor:
        if not self._session_key:
            raise SignedOut
        request = HttpRequest()
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(self._session_key)
        user_id = request.session.get(SESSION_KEY)
        user = get_user(request)
        if isinstance(user, User):
            return actors.of_user(user, address=self._address)
        if user_id is not None and User.objects.filter(pk=user_id, is_active=False).exists():
            raise RightGone
        raise SignedOut


class CredentialsOfSocket:
    """ASGI middleware: puts the credentials into `scope["credentials"]`.

    A token outranks a session: a bad one makes nobody of its sender, whatever cookie comes with it.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        return await self.app({**scope, "credentials": credentials_of(scope)}, receive, send)


def credentials_of(scope: Mapping[str, Any]) -> TokenCredentials | SessionCredentials:
    address = (scope.get("client") or ("",))[0]
    headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}
    scheme, _, text = headers.get(b"authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return TokenCredentials(text.strip(), address=address)
    cookies = parse_cookie(headers.get(b"cookie", ""))
    return SessionCredentials(cookies.get(settings.SESSION_COOKIE_NAME), address=address)
