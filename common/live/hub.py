"""The one place of an event loop where live news come together: one Redis subscription for all sockets."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import orjson
import redis.asyncio
from django.conf import settings

from common.live.board import LiveBoard
from common.live.redis import async_connection
from common.live.topics import Topic, name_of
from common.live.touch import CHANNELS, LOOKS

logger = logging.getLogger(__name__)

PING_SECONDS = 5.0
"""A subscription that says nothing for this long is asked whether it is still there."""
LONGEST_WAIT_SECONDS = 5.0
REMEMBERED_SECONDS = 120.0
"""How long after it was made a page may come and still learn just what changed meanwhile."""


class ChannelListener(Protocol):
    """Who wants what comes in on one channel, whose name begins with `CHANNELS`."""

    channel: str

    def heard(self, message: bytes) -> None: ...

    async def connected(self) -> None:
        """The subscription stands, for the first time or again: what was said before went unheard."""


class FollowedTopic:
    """A topic that somebody in this process follows: its board, and the task that keeps it."""

    def __init__(self, topic: Topic, key: str) -> None:
        self.topic = topic
        self.key = key
        self.name = name_of(topic.kind, key)
        self.board = LiveBoard(self.name)
        self.followers: set[asyncio.Event] = set()
        self.is_read = asyncio.Event()
        self._touched = asyncio.Event()
        self._looks_due = False

    def touch(self) -> None:
        self._looks_due = True
        self._touched.set()

    async def keep(self) -> None:
        while True:
            looks = self._looks_due
            self._touched.clear()
            self._looks_due = False
            changed = False
            try:
                changed = self.board.show(await self.topic.read(self.key))
            except Exception:
                logger.exception("Reading %s for the open pages failed", self.name)
            if looks:
                self.board.look()
            if changed or looks:
                self.wake()
            self.is_read.set()
            await asyncio.sleep(self.topic.min_gap_seconds)
            refresh = self.topic.refresh_seconds
            left = None if refresh is None else max(0.0, refresh - self.topic.min_gap_seconds)
            with contextlib.suppress(TimeoutError):
                # wait_for of Python 3.11 may lose a cancellation that comes with the event.
                async with asyncio.timeout(left):
                    await self._touched.wait()

    def wake(self) -> None:
        for follower in self.followers:
            follower.set()


class LiveHub:
    """All that is live in one event loop; get it with `current_hub()`. Runs until the loop ends."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.redis_up: bool | None = None
        """None until the first attempt has ended."""
        self.sockets: set[asyncio.Event] = set()
        self._client: redis.asyncio.Redis | None = None
        self._listeners: dict[str, ChannelListener] = {}
        self._followed: dict[str, tuple[FollowedTopic, asyncio.Task[None]]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._hears_since = math.inf
        """By the loop's clock; what changed before that is not known here."""
        self._touched_at: dict[str, float] = {}
        """The topics that changed lately, the longest ago first."""
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def client(self) -> "redis.asyncio.Redis":
        if self._client is None:
            self._client = async_connection(self.url)
        return self._client

    def listen(self, listener: ChannelListener) -> None:
        """Hand the listener whatever comes in on its channel from now on."""
        self._listeners[listener.channel] = listener
        self.start()
        if self.redis_up:
            self.spawn(listener.connected(), f"live: catching up on {listener.channel}")

    def start(self) -> None:
        if self._listening is None:
            self._listening = self.spawn(self._listen_for_ever(), "live: listening to Redis")

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """A task that lives as long as the hub.

        In a context of its own: it must not go on using the database thread of the request that began it.
        """
        task = asyncio.get_running_loop().create_task(work, name=name, context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("%s ended", task.get_name(), exc_info=error)

    async def follow(self, topic: Topic, key: str, follower: asyncio.Event) -> FollowedTopic:
        """Wake the follower whenever the topic's board changes; returns once it has been read."""
        self.start()
        name = name_of(topic.kind, key)
        if name not in self._followed:
            followed = FollowedTopic(topic, key)
            self._followed[name] = followed, self.spawn(followed.keep(), f"live: reading {name}")
        followed, _ = self._followed[name]
        followed.followers.add(follower)
        try:
            await followed.is_read.wait()
        except asyncio.CancelledError:
            self.leave(followed, follower)
            raise
        return followed

    def leave(self, followed: FollowedTopic, follower: asyncio.Event) -> None:
        followed.followers.discard(follower)
        kept = self._followed.get(followed.name)
        if not followed.followers and kept is not None and kept[0] is followed:
            del self._followed[followed.name]
            kept[1].cancel()

    def changed_within(self, seconds: float, name: str) -> bool:
        """Whether the topic's rows may have changed in the last `seconds`."""
        since = asyncio.get_running_loop().time() - seconds
        if since < self._hears_since or seconds > REMEMBERED_SECONDS:
            return True
        return self._touched_at.get(name, -math.inf) >= since

    def touched(self, name: str) -> None:
        now = asyncio.get_running_loop().time()
        self._touched_at.pop(name, None)
        self._touched_at[name] = now
        while self._touched_at[oldest := next(iter(self._touched_at))] < now - REMEMBERED_SECONDS:
            del self._touched_at[oldest]
        if kept := self._followed.get(name):
            kept[0].touch()

    async def aclose(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._followed.clear()
        self._listening = None
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _listen_for_ever(self) -> None:
        wait = 0.1
        while True:
            try:
                async with async_connection(self.url) as client, client.pubsub() as pubsub:
                    await self._subscribe(pubsub)
                    wait = 0.1
                    await self._hear(pubsub)
            except (redis.RedisError, OSError, TimeoutError) as error:
                if self.redis_up is not False:
                    logger.warning("Redis does not answer (%s): open pages get no news for now", error)
                self._hears_since = math.inf
                self._redis_is(up=False)
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def _subscribe(self, pubsub: "redis.asyncio.client.PubSub") -> None:
        await pubsub.psubscribe(CHANNELS + "*")
        confirmation = await pubsub.get_message(timeout=PING_SECONDS)
        if confirmation is None or confirmation["type"] != "psubscribe":
            raise TimeoutError("no answer to the subscription")
        self._hears_since = asyncio.get_running_loop().time()
        # After the confirmation, so that nothing falls between what is read here and what is heard.
        for listener in list(self._listeners.values()):
            await listener.connected()
        if self.redis_up is False:
            for followed, _ in self._followed.values():
                followed.touch()
        self._redis_is(up=True)

    async def _hear(self, pubsub: "redis.asyncio.client.PubSub") -> None:
        is_asked = False
        while True:
            message = await pubsub.get_message(timeout=PING_SECONDS)
            if message is not None:
                is_asked = False
                self._dispatch(message)
            elif is_asked:
                raise TimeoutError("no sign of life")
            else:
                await pubsub.ping()
                is_asked = True

    def _dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] != "pmessage":
            return
        channel = message["channel"].decode()
        try:
            if channel == LOOKS:
                self.touched(str(orjson.loads(message["data"])))
            elif listener := self._listeners.get(channel):
                listener.heard(message["data"])
        except Exception:
            logger.exception("A message on %s cannot be read", channel)

    def _redis_is(self, *, up: bool) -> None:
        if up == self.redis_up:
            return
        self.redis_up = up
        for socket in self.sockets:
            socket.set()


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub]" = WeakKeyDictionary()


def current_hub() -> LiveHub:
    """The running loop's hub: one per process in practice."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None or hub.url != settings.REDIS_URL:
        hub = _hubs[loop] = LiveHub(settings.REDIS_URL)
    return hub


def open_sockets() -> int:
    """Count the open sockets of this process."""
    return sum(len(hub.sockets) for hub in list(_hubs.values()))
