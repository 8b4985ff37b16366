"""Tells once a second how things are, whether or not anybody listens.

A worker tells the agent of its machine, and the agent the control plane; a worker in a pod tells the control
plane itself. Its token is read anew for each: it may be renewed while it runs.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from serving.http_client import HttpConnection, HttpError, Url
from serving.protocol import HEARTBEAT_SECONDS

log = logging.getLogger(__name__)

# A server that comes back must hear of every worker within the 5 s after which it calls one lost.
LONGEST_PAUSE_SECONDS = 3.0
ANSWER_WITHIN_SECONDS = 2.0
COMPLAIN_EVERY_SECONDS = 60.0


class HeartbeatSender:
    """POSTs the JSON that `compose` makes. Runs as one task on the event loop and never raises.

    Of several addresses it keeps to one that takes it, and goes on to the next when that does not.
    """

    def __init__(
        self,
        *urls: str,
        compose: Callable[[], bytes],
        token_file: Path | None = None,
        every: float = HEARTBEAT_SECONDS,
        answered: Callable[[bytes], None] | None = None,
    ) -> None:
        """`answered` is given the body of each answer that took one."""
        self._urls = deque(map(Url.parse, urls))
        self._token_file = token_file
        self._compose = compose
        self._every = every
        self._answered = answered
        self._connection: HttpConnection | None = None
        self._hurry = asyncio.Event()
        self._failures = 0
        self._complained_at: dict[Url, float] = {}

    def hurry(self) -> None:
        """The state has changed: the next heartbeat goes out now."""
        self._hurry.set()

    async def run(self) -> None:
        try:
            while True:
                began = time.monotonic()
                self._hurry.clear()
                await self.beat()
                pause = min(LONGEST_PAUSE_SECONDS, self._every * (1 + self._failures))
                with contextlib.suppress(TimeoutError):
                    # wait_for of Python 3.11 may lose a cancellation that comes with the event.
                    async with asyncio.timeout(max(0.05, began + pause - time.monotonic())):
                        await self._hurry.wait()
        finally:
            await self._drop()

    async def beat(self) -> bool:
        """Sends one heartbeat; False (and a line in the log now and then) when nobody took it."""
        for _ in range(len(self._urls)):
            try:
                async with asyncio.timeout(ANSWER_WITHIN_SECONDS):
                    # Made anew for each: one that was taken without an answer must not come twice.
                    await self._post(self._compose())
            except (HttpError, OSError, TimeoutError) as error:
                self._complain(str(error) or f"no answer within {ANSWER_WITHIN_SECONDS:g} s")
                await self._drop()
                self._urls.rotate(-1)
                continue
            if self._failures:
                log.info("heartbeats are taken again after %d failures", self._failures)
            self._failures = 0
            return True
        self._failures += 1
        return False

    async def _post(self, content: bytes) -> None:
        headers = {"content-type": "application/json"}
        if self._token_file is not None:
            headers["authorization"] = f"Bearer {self._token_file.read_text().strip()}"
        if self._connection is None or not self._connection.reusable:
            await self._drop()
            self._connection = await HttpConnection.open(self._urls[0])
        status = await self._connection.request("POST", self._urls[0], headers=headers, body=content)
        answer = b"".join([part async for part in self._connection.body()])
        if not 200 <= status < 300:
            raise HttpError(f"status {status}: {answer[:200].decode(errors='replace')}")
        if self._answered is not None:
            self._answered(answer)

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _complain(self, reason: str) -> None:
        url = self._urls[0]
        if time.monotonic() - self._complained_at.get(url, -COMPLAIN_EVERY_SECONDS) >= COMPLAIN_EVERY_SECONDS:
            self._complained_at[url] = time.monotonic()
            where = url.socket or url.authority
            log.warning("heartbeats to %s are not taken: %s", where, reason)
