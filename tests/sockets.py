"""A browser's end of a live socket, without a network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import orjson

from common.actor import Actor
from common.live.credentials import RightGone, SignedOut
from tests.patience import PATIENCE_SECONDS


class Pass:
    """Credentials that a test can take away."""

    def __init__(self, actor: Actor | None = None, *, ambient: bool = False) -> None:
        self.known = actor or Actor(name="ann", user_id=1, via="web")
        self.ambient = ambient
        self.error: type[Exception] | None = None

    def actor(self) -> Actor:
        if self.error:
            raise self.error
        return self.known

    def sign_out(self) -> None:
        self.error = SignedOut

    def revoke(self) -> None:
        self.error = RightGone


class Socket:
    """`async with Socket(application, scope) as page`: frames come in order, `code` is how it was closed."""

    def __init__(self, application: Callable[..., Awaitable[None]], scope: dict[str, Any]) -> None:
        self._application = application
        self._scope = {"type": "websocket", "headers": [], **scope}
        self._to_server: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.takes = asyncio.Event()
        self.takes.set()
        self.is_accepted = False
        self.code: int | None = None

    async def __aenter__(self) -> Self:
        self._to_server.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(
            self._application(self._scope, self._to_server.get, self._take)  # type: ignore[arg-type]
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.takes.set()
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.wait_for(self._task, 5)

    async def _take(self, message: dict[str, Any]) -> None:
        await self.takes.wait()
        if message["type"] == "websocket.accept":
            self.is_accepted = True
        elif message["type"] == "websocket.close":
            self.code = message.get("code", 1000)
        else:
            self._frames.put_nowait(orjson.loads(message["text"]))

    def say(self, kind: str, *topics: str, **more: Any) -> None:
        self.say_text(orjson.dumps({"type": kind, "topics": topics, **more}).decode())

    def say_text(self, text: str) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    async def frame(self, within: float = PATIENCE_SECONDS) -> dict[str, Any]:
        return await asyncio.wait_for(self._frames.get(), within)

    async def frame_of(self, kind: str, within: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """The next frame of that kind; others before it are skipped."""
        async with asyncio.timeout(within):
            while True:
                frame = await self._frames.get()
                if frame["type"] == kind:
                    return frame

    async def is_silent(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return self._frames.empty()

    async def ended(self, within: float = PATIENCE_SECONDS) -> int | None:
        await asyncio.wait_for(asyncio.shield(self._task), within)
        return self.code
