"""Who is behind a websocket: the browser's session, or the bearer token of a program."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from channels.db import database_sync_to_async

from accounts import actors, services
from accounts.errors import BadToken
from common.actor import Actor

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[Any]]


class ActorOfSocket:
    """ASGI middleware inside channels' `AuthMiddlewareStack`: puts the actor into `scope["actor"]`.

    A bad token makes nobody of its sender, whatever session comes with it.
    """

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> Any:
        actor = await database_sync_to_async(_actor_of)(scope)
        return await self.app({**scope, "actor": actor}, receive, send)


def _actor_of(scope: Scope) -> Actor:
    address = (scope.get("client") or ("",))[0]
    headers = {name.lower(): value for name, value in scope.get("headers", ())}
    scheme, _, text = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        user = scope.get("user")
        # Resolves channels' lazy user here, off the event loop.
        return actors.of_user(user if user is not None and user.is_authenticated else None, address=address)
    try:
        return actors.of_token(services.use_token(text.strip()), address=address)
    except BadToken:
        return actors.of_user(None, address=address)
