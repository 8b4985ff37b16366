import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import redis

from common import clock
from common.live.hub import LiveHub
from common.live.redis import ask
from common.live.touch import CHANNELS

logger = logging.getLogger(__name__)

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SharedRecord:
    record: Record
    seen_at: float
    """By this process's monotonic clock, so that clocks of machines need not agree for what is heard live."""


class SharedValues:
    """The latest record per key, offered in any process and known in all of them.

    What was offered since the last tick goes out as one message, and into a Redis hash from which processes
    that start, or that lost their connection, catch up. Keys that nobody offered for `expire_seconds` vanish.
    While Redis is away, a process knows what was offered to itself, and sends it when Redis is back.

    With `ordered_by`, a field of the records, the one with the highest number is the latest, whichever comes
    last: two processes that are told different things at the same moment come to hold the same.
    """

    def __init__(
        self, hub: LiveHub, name: str, *, tick_seconds: float, expire_seconds: float, ordered_by: str = ""
    ) -> None:
        self.channel = f"{CHANNELS}{name}"
        self.held: dict[str, SharedRecord] = {}
        self._hub = hub
        self._hash = _hash(name)
        self._tick_seconds = tick_seconds
        self._expire_seconds = expire_seconds
        self._ordered_by = ordered_by
        self._origin = secrets.token_hex(6)
        self._own_prefix = orjson.dumps({"from": self._origin})[:-1]
        self._sent = 0
        self._heard: dict[str, int] = {}
        self._pending: dict[str, Record] = {}
        self._offered = asyncio.Event()
        self._pruned_at = time.monotonic()
        hub.listen(self)
        hub.spawn(self._publish_for_ever(), f"live: publishing {name}")

    def offer(self, key: str, record: Record) -> None:
        """Make `record` the latest of `key`. It must be JSON and is not to be changed afterwards."""
        if self._is_late(key, record):
            return
        self._pending[key] = record
        self.held[key] = SharedRecord(record, time.monotonic())
        self._offered.set()

    def heard(self, message: bytes) -> None:
        if message.startswith(self._own_prefix):
            return
        content = orjson.loads(message)
        origin, number = content["from"], content["n"]
        if number != self._heard.get(origin, number - 1) + 1:
            self._hub.spawn(self.connected(), f"live: catching up on {self.channel}")
        self._heard[origin] = number
        now = time.monotonic()
        for key, record in content["records"].items():
            if self._is_late(key, record):
                # Its sender has just written it over the later one that all others hold.
                self._pending.setdefault(key, self.held[key].record)
                self._offered.set()
            else:
                self.held[key] = SharedRecord(record, now)

    async def connected(self) -> None:
        """Catch up from the hash. Only its records carry a time of their own: `at`, seconds since 1970."""
        fields = await self._fields()
        now, wall = time.monotonic(), clock.seconds()
        for key, text in fields.items():
            entry = orjson.loads(text)
            seen_at = now - max(0.0, wall - entry["at"])
            held = self.held.get(key)
            if held is None or (held.seen_at < seen_at and not self._is_late(key, entry["record"])):
                self.held[key] = SharedRecord(entry["record"], seen_at)

    def _is_late(self, key: str, record: Record) -> bool:
        held = self.held.get(key)
        if not self._ordered_by or held is None:
            return False
        late: bool = record.get(self._ordered_by, 0) < held.record.get(self._ordered_by, 0)
        return late

    def forget_old(self) -> None:
        """Drop what has expired."""
        limit = time.monotonic() - self._expire_seconds
        for key in [key for key, held in self.held.items() if held.seen_at < limit]:
            del self.held[key]

    async def _publish_for_ever(self) -> None:
        while True:
            await self._offered.wait()
            await asyncio.sleep(self._tick_seconds)
            self._offered.clear()
            batch = {key: record for key, record in self._pending.items() if not self._is_late(key, record)}
            self._pending = {}
            if not batch:
                continue
            try:
                await self._publish(batch)
            except (redis.RedisError, OSError, TimeoutError) as error:
                logger.debug("Not shared: %s", error)
                self._pending = batch | self._pending
                self._offered.set()

    async def _publish(self, batch: Mapping[str, Record]) -> None:
        at = clock.seconds()
        written = {key: orjson.dumps(record) for key, record in batch.items()}
        texts = {key: orjson.Fragment(text) for key, text in written.items()}
        message = {"from": self._origin, "n": self._sent + 1, "records": texts}
        fields: dict[Any, Any] = {key: b'{"at":%f,"record":%b}' % (at, text) for key, text in written.items()}
        pipeline = self._hub.client.pipeline(transaction=False)
        pipeline.publish(self.channel, orjson.dumps(message))
        pipeline.hset(self._hash, mapping=fields)
        pipeline.expire(self._hash, int(self._expire_seconds) + 1)
        await pipeline.execute()
        self._sent += 1
        if time.monotonic() - self._pruned_at > self._expire_seconds:
            await self._prune(at)

    async def _fields(self) -> dict[str, bytes]:
        return _decoded(await self._hub.client.hgetall(self._hash))

    async def _prune(self, wall: float) -> None:
        self._pruned_at = time.monotonic()
        self.forget_old()
        fields = await self._fields()
        old = [
            field for field, text in fields.items() if orjson.loads(text)["at"] < wall - self._expire_seconds
        ]
        if old:
            await self._hub.client.hdel(self._hash, *old)


def stored(name: str, keys: list[str] | None = None) -> dict[str, tuple[float, Record]]:
    """(time of the offer in seconds since 1970, record) by key, for synchronous code in any process.

    `keys` narrows it. Raises NotShared when Redis does not answer.
    """
    entries = {}
    for key, text in ask(lambda client: _read(client, name, keys)).items():
        entry = orjson.loads(text)
        entries[key] = (float(entry["at"]), entry["record"])
    return entries


def _read(client: "redis.Redis", name: str, keys: list[str] | None) -> dict[str, bytes]:
    if keys is None:
        return _decoded(client.hgetall(_hash(name)))
    if not keys:
        return {}
    texts: list[Any] = client.hmget(_hash(name), keys)
    return {key: text for key, text in zip(keys, texts, strict=True) if text is not None}


def _decoded(fields: Mapping[Any, Any]) -> dict[str, bytes]:
    return {field.decode(): text for field, text in fields.items()}


def _hash(name: str) -> str:
    return f"slipway:shared:{name}"
