"""Jobs in Redis: every change is one script, which compares the revision before it writes.

Keys, all below `slipway:jobs:`: `job:ID` (document and revision), its `:body` and `:result`; `due:POOL`, a
sorted set of ids by the moment at which anybody may act on them; `bell:POOL`, a list that is pushed to when
something may be due; `added`, how many jobs ever came, by pool; `pools`; `groups:POOL`, which of its workers
take jobs; `key:...`, the job of an idempotency key; `changed`, ids by the number of their last change, for
whoever mirrors them.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from serving.jobs.errors import QueueFull, QueueUnreachable
from serving.jobs.groups import GroupAssignment
from serving.jobs.job import QueuedJob
from serving.jobs.store import Pool

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = "slipway:jobs:"
DURABLE_WITHIN_MS = 2_000

_CHANGED = """
local function changed(id)
  redis.call('ZADD', P .. 'changed', redis.call('INCR', P .. 'sequence'), id)
  redis.call('ZREMRANGEBYRANK', P .. 'changed', 0, -100001)
end
local function ring(pool)
  redis.call('LPUSH', P .. 'bell:' .. pool, 1)
  redis.call('LTRIM', P .. 'bell:' .. pool, 0, 63)
  redis.call('EXPIRE', P .. 'bell:' .. pool, 60)
end
"""
_ADD = (
    f"local P = '{PREFIX}'"
    + _CHANGED
    + """
local id, doc, body, due_at, limit, pool, key = unpack(ARGV)
if key ~= '' then
  local known = redis.call('GET', P .. 'key:' .. key)
  if known then
    local found = redis.call('HGET', P .. 'job:' .. known, 'doc')
    if found then return {'known', found} end
  end
end
if redis.call('ZCARD', P .. 'due:' .. pool) >= tonumber(limit) then return {'full', ''} end
redis.call('HSET', P .. 'job:' .. id, 'revision', 1, 'doc', doc)
redis.call('SET', P .. 'job:' .. id .. ':body', body)
redis.call('ZADD', P .. 'due:' .. pool, due_at, id)
redis.call('SADD', P .. 'pools', pool)
redis.call('HINCRBY', P .. 'added', pool, 1)
if key ~= '' then redis.call('SET', P .. 'key:' .. key, id) end
ring(pool)
changed(id)
return {'added', doc}
"""
)
_REPLACE = (
    f"local P = '{PREFIX}'"
    + _CHANGED
    + """
local id, revision, doc, before, after, due_at, keep, key, has_result, result, rings, was_over =
  unpack(ARGV)
local job = P .. 'job:' .. id
if redis.call('HGET', job, 'revision') ~= revision then return 0 end
redis.call('HSET', job, 'revision', revision + 1, 'doc', doc)
redis.call('ZREM', P .. 'due:' .. before, id)
if redis.call('EXISTS', P .. 'due:' .. before) == 0 then redis.call('SREM', P .. 'pools', before) end
local has_come = was_over == '1' or before ~= after
if due_at ~= '' and has_come then redis.call('HINCRBY', P .. 'added', after, 1) end
local all = {job, job .. ':body'}
if key ~= '' then all[3] = P .. 'key:' .. key end
if due_at ~= '' then
  redis.call('ZADD', P .. 'due:' .. after, due_at, id)
  redis.call('SADD', P .. 'pools', after)
  for _, one in ipairs(all) do redis.call('PERSIST', one) end
  redis.call('DEL', job .. ':result')
  if rings == '1' then ring(after) end
else
  for _, one in ipairs(all) do redis.call('PEXPIRE', one, keep) end
  if has_result == '1' then redis.call('SET', job .. ':result', result, 'PX', keep) end
end
changed(id)
return 1
"""
)

_ASSIGN = """
local before = redis.call('GET', KEYS[1])
if before and cjson.decode(before)['fence'] > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class RedisJobStore:
    """A `JobStore` that all workers of a service share. Owns the client."""

    def __init__(self, client: "Redis") -> None:
        self._client = client

    @classmethod
    def at(cls, url: str) -> "RedisJobStore":
        """Open the store at a URL `redis://`, `rediss://`, `unix://`, or of Sentinels as docs/SETTINGS.md has
        it. Raises ValueError.
        """
        import redis.asyncio

        options: dict[str, Any] = {"socket_timeout": 10.0, "socket_connect_timeout": 2.0, "protocol": 2}
        parts = urlsplit(url)
        if parts.scheme != "sentinel":
            return cls(redis.asyncio.Redis.from_url(url, **options))
        credentials, _, hosts = parts.netloc.rpartition("@")
        username, _, password = credentials.partition(":")
        addresses = [
            (host, int(port or 26379)) for host, _, port in (one.partition(":") for one in hosts.split(","))
        ]
        sentinel = redis.asyncio.Sentinel(addresses, socket_timeout=2.0)  # type: ignore[no-untyped-call]
        return cls(
            sentinel.master_for(
                parse_qs(parts.query)["master"][0],
                db=int(parts.path.strip("/") or 0),
                username=unquote(username) or None,
                password=unquote(password) or None,
                **options,
            )
        )

    async def now(self) -> float:
        with _reached():
            seconds, microseconds = await self._client.time()
        return float(seconds) + microseconds / 1e6

    async def add(self, job: QueuedJob, body: bytes, *, limit: int) -> QueuedJob:
        """Returns when the job is on the disk of a Redis that keeps an append-only file."""
        key = _key(job) if job.key else ""
        due_at, pool = repr(job.due_at), _pool(job)
        arguments: list[str | bytes] = [job.id, job.encode(), body, due_at, str(limit), pool, key]
        with _reached():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.eval(_ADD, 0, *arguments)
                pipe.execute_command("WAITAOF", 1, 0, DURABLE_WITHIN_MS)
                # Without an append-only file, and before version 7.2, there is nothing to wait for.
                answer, _ = await pipe.execute(raise_on_error=False)
        if isinstance(answer, Exception):
            raise QueueUnreachable(str(answer)) from None
        what, document = answer
        if what == b"full":
            raise QueueFull(f"{limit} jobs wait already.")
        return QueuedJob.decode(document)

    async def load(self, job_id: str) -> QueuedJob | None:
        with _reached():
            document = await _answer(self._client.hget(f"{PREFIX}job:{job_id}", "doc"))
        return QueuedJob.decode(document) if document else None

    async def body(self, job_id: str) -> bytes:
        return await self._bytes(f"{job_id}:body")

    async def result(self, job_id: str) -> bytes:
        return await self._bytes(f"{job_id}:result")

    async def replace(self, before: QueuedJob, after: QueuedJob, result: bytes | None = None) -> bool:
        arguments = [
            before.id,
            str(before.revision),
            after.encode(),
            _pool(before),
            _pool(after),
            "" if after.is_over else repr(after.due_at),
            str(int(after.policy.keep_seconds * 1_000)),
            _key(after) if after.key else "",
            "0" if result is None else "1",
            result or b"",
            # Whoever waits need not hear of a lease that goes on.
            "0" if after.lease else "1",
            "1" if before.is_over else "0",
        ]
        with _reached():
            return bool(await _answer(self._client.eval(_REPLACE, 0, *arguments)))

    async def due(self, pool: Pool, now: float, limit: int) -> Sequence[str]:
        with _reached():
            found = await _answer(
                self._client.zrangebyscore(
                    f"{PREFIX}due:{_named(pool)}", "-inf", repr(now), start=0, num=limit
                )
            )
        return [one.decode() for one in found]

    async def wait(self, pool: Pool, seconds: float) -> None:
        with _reached():
            await _answer(self._client.blpop([f"{PREFIX}bell:{_named(pool)}"], timeout=seconds))

    async def pools(self) -> Sequence[Pool]:
        with _reached():
            found = await _answer(self._client.smembers(f"{PREFIX}pools"))
        return sorted((str(service), str(target)) for service, target in map(json.loads, found))

    async def unfinished(self, pool: Pool) -> Sequence[str]:
        with _reached():
            found = await _answer(self._client.zrange(f"{PREFIX}due:{_named(pool)}", 0, -1))
        return [one.decode() for one in found]

    async def unfinished_count(self, pool: Pool) -> int:
        with _reached():
            return int(await _answer(self._client.zcard(f"{PREFIX}due:{_named(pool)}")))

    async def counts(self, pool: Pool) -> tuple[int, int]:
        name = _named(pool)
        with _reached():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.zcard(f"{PREFIX}due:{name}")
                pipe.hget(f"{PREFIX}added", name)
                unfinished, added = await pipe.execute()
        return int(unfinished), int(added or 0)

    async def assignment(self, pool: Pool) -> GroupAssignment | None:
        with _reached():
            found = await _answer(self._client.get(f"{PREFIX}groups:{_named(pool)}"))
        return GroupAssignment.decode(found) if found else None

    async def assign(self, pool: Pool, assignment: GroupAssignment) -> bool:
        key = f"{PREFIX}groups:{_named(pool)}"
        with _reached():
            set_now = self._client.eval(_ASSIGN, 1, key, assignment.encode(), str(assignment.fence))
            return bool(await _answer(set_now))

    async def unassign(self, pool: Pool) -> None:
        with _reached():
            await _answer(self._client.delete(f"{PREFIX}groups:{_named(pool)}"))

    async def last_change(self) -> int:
        with _reached():
            return int(await _answer(self._client.get(f"{PREFIX}sequence")) or 0)

    async def changed(self, after: int, limit: int) -> Sequence[tuple[int, str]]:
        """Number and id of the jobs that changed since that number, in order."""
        with _reached():
            found = await _answer(
                self._client.zrangebyscore(
                    f"{PREFIX}changed", f"({after}", "+inf", start=0, num=limit, withscores=True
                )
            )
        return [(int(number), one.decode()) for one, number in found]

    async def close(self) -> None:
        await self._client.aclose()

    async def _bytes(self, name: str) -> bytes:
        with _reached():
            return bytes(await _answer(self._client.get(f"{PREFIX}job:{name}")) or b"")


def _named(pool: Pool) -> str:
    return json.dumps(list(pool))


def _pool(job: QueuedJob) -> str:
    return _named((job.service, job.target))


def _key(job: QueuedJob) -> str:
    return json.dumps([job.service, job.path, job.key])


async def _answer(question: Any) -> Any:
    """The client's types leave open whether it is asynchronous."""
    return await question


@contextmanager
def _reached() -> Iterator[None]:
    import redis

    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise QueueUnreachable(f"The queue of jobs does not answer: {error}") from error
