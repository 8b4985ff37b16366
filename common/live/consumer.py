"""A page's socket. Frames and close codes: docs/LIVE.md."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
from channels.db import database_sync_to_async
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from rest_framework.exceptions import ParseError

from common.api.json import loads
from common.errors import Missing, NotAllowed
from common.live.board import Audience, SocketPosition
from common.live.credentials import RightGone, SignedOut, SocketCredentials
from common.live.hub import FollowedTopic, LiveHub, current_hub
from common.live.topics import Topic, name_of, topic_of

logger = logging.getLogger(__name__)

SIGNED_OUT = 4401
RIGHT_GONE = 4403
TRY_LATER = 1013
ABUSE = 1008

CHECK_SECONDS = 8.0
"""So that, with what credentials remember for a moment, a right that is gone counts for 10 s at most."""
STALLED_SECONDS = 30.0
"""A browser that takes no byte for this long is given up."""
MAX_SOCKETS = 5_000
"""Per process."""
MAX_TOPICS = 64
MAX_MESSAGE_CHARACTERS = 8_192
MESSAGES_BURST = 30
MESSAGES_PER_SECOND = 5.0

Scope = Mapping[str, Any]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class _Stalled(Exception):
    """The browser takes nothing any more."""


class _Close(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True, slots=True)
class _Refused:
    why: str


@dataclass(slots=True)
class _Subscription:
    followed: FollowedTopic
    audience: Audience
    seen: SocketPosition


class LiveConsumer:
    """A consumer of one socket: it authorizes, follows topics and forwards what their boards show.

    As `/ws/live/` the page says what it follows. `as_asgi(topic="release")` is a socket that follows the one
    topic of its route (`key` in the path, if the topic has keys) from the start, and ends with that right.

    Nothing is queued: the socket is woken, and takes what the boards show by then. One that takes no frames
    holds up nobody and finds the latest values when it does again.
    """

    def __init__(self, *, topic: str = "") -> None:
        self._kind = topic
        self._subscriptions: dict[str, _Subscription] = {}
        self._woken = asyncio.Event()
        self._outbox: list[str] = []
        self._allowance = float(MESSAGES_BURST)
        self._heard_at = time.monotonic()
        self._told_redis_up: bool | None = None

    @classmethod
    def as_asgi(cls, *, topic: str = "") -> Any:
        """Make a route's application (Django's types know views only), with a consumer for every socket."""

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await cls(topic=topic)(scope, receive, send)

        return application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._credentials: SocketCredentials = scope["credentials"]
        await receive()
        if self._credentials.ambient and not is_own_origin(scope):
            await send({"type": "websocket.close"})
            return
        self._hub: LiveHub = current_hub()
        await send({"type": "websocket.accept"})
        code = await self._serve(scope)
        if code is not None:
            with contextlib.suppress(Exception):
                await send({"type": "websocket.close", "code": code})

    async def _serve(self, scope: Scope) -> int | None:
        """Until one side ends it; the code to close with, None when there is nobody left to tell."""
        if len(self._hub.sockets) >= MAX_SOCKETS:
            return TRY_LATER
        self._hub.sockets.add(self._woken)
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._open(scope)
            tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except _Close as close:
            return close.code
        except (_Stalled, OSError):
            return None  # OSError: what ASGI servers raise when the other end is gone.
        except Exception:
            logger.exception("A live socket failed")
            return 1011
        finally:
            self._hub.sockets.discard(self._woken)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for subscription in self._subscriptions.values():
                self._hub.leave(subscription.followed, self._woken)
        return None

    async def _open(self, scope: Scope) -> None:
        if not self._kind:
            await self._judge([])
            return
        key = str(scope.get("url_route", {}).get("kwargs", {}).get("key", ""))
        if await self._subscribe(name_of(self._kind, key), age=0.0):
            raise _Close(RIGHT_GONE)

    async def _judge(self, wishes: Sequence[tuple[Topic, str]]) -> "list[Audience | _Refused]":
        """Return what the socket's owner may see now of each topic and key. One trip to a thread."""
        judged = await database_sync_to_async(self._judge_now)(wishes)
        if isinstance(judged, int):
            raise _Close(judged)
        return judged  # type: ignore[no-any-return]

    def _judge_now(self, wishes: Sequence[tuple[Topic, str]]) -> "list[Audience | _Refused] | int":
        try:
            actor = self._credentials.actor()
        except SignedOut:
            return SIGNED_OUT
        except RightGone:
            return RIGHT_GONE
        judged: list[Audience | _Refused] = []
        for topic, key in wishes:
            try:
                judged.append(topic.audience(actor, key))
            except (NotAllowed, Missing) as refusal:
                judged.append(_Refused(str(refusal) or "You may not follow this."))
        return judged

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            self._pay()
            text = message.get("text") or ""
            if len(text) > MAX_MESSAGE_CHARACTERS:
                raise _Close(ABUSE)
            try:
                wish = loads(text)
                kind, topics = wish["type"], [str(name) for name in wish["topics"]]
                age = float(wish.get("age", 0.0))
            except (ParseError, ValueError, KeyError, TypeError):
                raise _Close(ABUSE) from None
            await self._obey(kind, topics, age)

    def _pay(self) -> None:
        now = time.monotonic()
        self._allowance = min(MESSAGES_BURST, self._allowance + (now - self._heard_at) * MESSAGES_PER_SECOND)
        self._heard_at = now
        self._allowance -= 1
        if self._allowance < 0:
            raise _Close(ABUSE)

    async def _obey(self, kind: str, topics: list[str], age: float) -> None:
        if kind == "snapshot":
            for name in topics:
                if subscription := self._subscriptions.get(name):
                    subscription.seen = subscription.seen.without_values()
        elif kind == "subscribe" and not self._kind:
            for name in topics:
                if name not in self._subscriptions and (refusal := await self._subscribe(name, age)):
                    self._refuse(name, refusal)
        elif kind == "unsubscribe" and not self._kind:
            for name in topics:
                self._unsubscribe(name)
        self._woken.set()

    async def _subscribe(self, name: str, age: float) -> str:
        """Why not; empty when it is done. `age`: of what the page shows, in seconds."""
        found = topic_of(name)
        if found is None:
            return "There is no such topic."
        if len(self._subscriptions) >= MAX_TOPICS:
            return f"A socket follows at most {MAX_TOPICS} topics."
        (audience,) = await self._judge([found])
        if isinstance(audience, _Refused):
            return audience.why
        followed = await self._hub.follow(*found, self._woken)
        seen = followed.board.newcomer(is_late=age > 0 and self._hub.changed_within(age, name))
        self._subscriptions[name] = _Subscription(followed, audience, seen)
        return ""

    def _unsubscribe(self, name: str) -> None:
        if subscription := self._subscriptions.pop(name, None):
            self._hub.leave(subscription.followed, self._woken)

    def _refuse(self, name: str, why: str) -> None:
        self._outbox.append(_text({"type": "refused", "topic": name, "detail": why}))
        self._woken.set()

    async def _write(self) -> None:
        check_at = _soon()
        is_due = has_spoken = False
        while True:
            self._woken.clear()
            if is_due:
                await self._check_rights()
            has_spoken |= await self._send_news()
            if is_due:
                if not has_spoken:
                    await self._tell(_text({"type": "beat"}))
                check_at = _soon()
                has_spoken = False
            try:
                async with asyncio.timeout_at(check_at):
                    await self._woken.wait()
                is_due = asyncio.get_running_loop().time() >= check_at
            except TimeoutError:
                is_due = True

    async def _check_rights(self) -> None:
        subscriptions = list(self._subscriptions.items())
        wishes = [(one.followed.topic, one.followed.key) for _, one in subscriptions]
        for (name, subscription), audience in zip(subscriptions, await self._judge(wishes), strict=True):
            if isinstance(audience, _Refused):
                if self._kind:
                    raise _Close(RIGHT_GONE)
                self._unsubscribe(name)
                self._refuse(name, audience.why)
            elif audience != subscription.audience:
                subscription.audience = audience
                subscription.seen = subscription.seen.without_values()

    async def _send_news(self) -> bool:
        """Send what this socket lacks by now; True if anything was."""
        outbox, self._outbox = self._outbox, []
        is_any = bool(outbox)
        for frame in outbox:
            await self._tell(frame)
        for subscription in list(self._subscriptions.values()):
            frames, subscription.seen = subscription.followed.board.frames(
                subscription.audience, subscription.seen
            )
            is_any |= bool(frames)
            for frame in frames:
                await self._tell(frame)
        was, self._told_redis_up = self._told_redis_up, self._hub.redis_up
        if was is not self._told_redis_up and False in (was, self._told_redis_up):
            await self._tell(_text({"type": "up" if self._told_redis_up else "down", "part": "redis"}))
            is_any = True
        return is_any

    async def _tell(self, frame: str) -> None:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await self._send({"type": "websocket.send", "text": frame})
        except TimeoutError:
            raise _Stalled from None


def _soon() -> float:
    """When to check rights again, by the loop's clock; not all sockets at once after a restart."""
    return asyncio.get_running_loop().time() + CHECK_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311


def is_own_origin(scope: Scope) -> bool:
    """Whether the page that opens the socket is ours: what CSRF protection is to forms (RFC 6455, 10.2)."""
    headers = dict(scope.get("headers", ()))
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not origin:
        return False
    if origin in {trusted.lower() for trusted in settings.CSRF_TRUSTED_ORIGINS}:
        return True
    parts = urlsplit(origin)
    schemes = {"https"} if settings.SESSION_COOKIE_SECURE else {"http", "https"}
    return parts.scheme in schemes and parts.netloc == host and _is_our_host(host)


def _is_our_host(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _text(frame: Mapping[str, Any]) -> str:
    return orjson.dumps(frame).decode()
