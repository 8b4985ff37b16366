"""Who is behind a websocket: the browser's session, or a program's bearer token; asked again and again."""

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user
from django.db.models import Q
from django.http import HttpRequest, parse_cookie

from accounts import actors
from accounts.actors import KnownActor
from accounts.bearer import bearer_text, bearer_token
from accounts.errors import InvalidToken
from accounts.failed_tokens import TooManyFailedTokens
from accounts.grants import Grants
from accounts.models import User
from common.live.credentials import RightGone, SignedOut

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[Any]]

REMEMBERED_SECONDS = 1.5
"""Many pages of one person ask at about the same time: they share the answer for this long."""
MAX_REMEMBERED = 10_000

_remembered: dict[tuple[str, str], tuple[float, KnownActor]] = {}


class TokenCredentials:
    """`Authorization: Bearer slp_...`: no browser sends it by itself."""

    ambient = False

    def __init__(self, text: str, *, address: str) -> None:
        self._text = text
        self._address = address
        self._actor: KnownActor | None = None

    def actor(self) -> KnownActor:
        if self._actor is None:
            try:
                token = bearer_token(self._text, address=self._address)
            except (InvalidToken, TooManyFailedTokens):
                raise SignedOut from None
            self._actor = actors.of_token(token, address=self._address)
        # The secret was proven; whether the token and its owner still count stands in the rights themselves.
        actor = _remember(("token", self._text), lambda: actors.again(self._known))
        if actor.grants == Grants():
            raise RightGone
        return actor

    @property
    def _known(self) -> KnownActor:
        assert self._actor is not None  # noqa: S101
        return self._actor


class SessionCredentials:
    """The session behind the cookie, read anew each time: it ends with a logout and a new password."""

    ambient = True

    def __init__(self, session_key: str | None, *, address: str) -> None:
        self._session_key = session_key
        self._address = address

    def actor(self) -> KnownActor:
        if not self._session_key:
            raise SignedOut
        return _remember(("session", self._session_key), self._read)

    def _read(self) -> KnownActor:
        request = HttpRequest()
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(self._session_key)
        user_id = request.session.get(SESSION_KEY)
        user = get_user(request)
        if isinstance(user, User):
            return actors.of_user(user, address=self._address)
        refused = Q(is_active=False) | Q(suspended_at__isnull=False)
        if user_id is not None and User.objects.filter(refused, pk=user_id).exists():
            raise RightGone
        raise SignedOut


class SocketCredentialsMiddleware:
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
    text = bearer_text(headers.get(b"authorization", ""))
    if text is not None:
        return TokenCredentials(text, address=address)
    cookies = parse_cookie(headers.get(b"cookie", ""))
    return SessionCredentials(cookies.get(settings.SESSION_COOKIE_NAME), address=address)


def _remember(key: tuple[str, str], read: Callable[[], KnownActor]) -> KnownActor:
    """Return what `read` gave a moment ago, or gives now, with its rights read. Its errors are not
    remembered.
    """
    now = time.monotonic()
    found = _remembered.get(key)
    if found is not None and now < found[0]:
        return found[1]
    actor = read()
    _ = actor.grants
    if len(_remembered) >= MAX_REMEMBERED:
        _remembered.clear()
    _remembered[key] = (now + REMEMBERED_SECONDS, actor)
    return actor
