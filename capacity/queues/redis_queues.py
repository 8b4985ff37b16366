"""Lists and streams of a Redis or Valkey of somebody else.

A list tells its length alone. A stream tells how many entries ever came (`entries-added`), and its consumer
group how many it has not read (`lag`) or not acknowledged (`pending`): https://redis.io/docs/latest/commands/xinfo-groups/
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import redis

from capacity.queues.base import WITHIN_SECONDS, QueueAddress, QueueSample, QueueSilent
from common.errors import SlipwayError
from common.outbound import own_machine
from common.outbound.names import resolve


def _connect_judged(connection: Any) -> Any:
    """Connect to an address that was judged, whatever the name means a moment later."""
    name, port = connection.host, connection.port
    found = resolve(name, port)
    own_machine.judge(name, port, found)
    connection.host = str(found[0])
    try:
        return redis.Connection._connect(connection)  # type: ignore[no-untyped-call]
    finally:
        connection.host = name


class JudgedRedisConnection(redis.Connection):
    """A connection in the clear."""

    def _connect(self) -> Any:
        return _connect_judged(self)


class JudgedRedisTlsConnection(redis.SSLConnection):
    """A connection by TLS, whose certificate is that of the name."""

    def _connect(self) -> Any:
        return self._wrap_socket_with_ssl(_connect_judged(self))  # type: ignore[no-untyped-call]


Look = Callable[[redis.Redis, QueueAddress], QueueSample]


class RedisQueue:
    def __init__(self, address: QueueAddress, look: Look) -> None:
        self._address, self._look = address, look

    def sample(self) -> QueueSample:
        url = self._address.url
        kind = JudgedRedisTlsConnection if urlsplit(url).scheme == "rediss" else JudgedRedisConnection
        pool = redis.ConnectionPool.from_url(
            url,
            socket_timeout=WITHIN_SECONDS / 2,
            socket_connect_timeout=WITHIN_SECONDS / 2,
            **({"password": self._address.secret} if self._address.secret else {}),
        )
        pool.connection_class = kind
        try:
            with redis.Redis(connection_pool=pool) as client:
                return self._look(client, self._address)
        except SlipwayError as error:
            raise QueueSilent(str(error)) from None
        except (redis.RedisError, OSError) as error:
            raise QueueSilent(f"{urlsplit(url).hostname} does not tell it: {error}") from None
        finally:
            pool.disconnect()


def _list(client: redis.Redis, address: QueueAddress) -> QueueSample:
    return QueueSample(float(client.llen(address.subject)))


def _stream(client: redis.Redis, address: QueueAddress) -> QueueSample:
    """A stream that nobody has made yet is empty; a group that is not there would read all of it."""
    if not client.exists(address.subject):
        return QueueSample(0.0, arrived=0.0)
    stream: Any = client.xinfo_stream(address.subject)
    groups: Any = client.xinfo_groups(address.subject)
    arrived = float(stream["entries-added"])
    group = next((one for one in groups if one["name"].decode() == address.consumer_group), None)
    if group is None:
        return QueueSample(float(stream["length"]), arrived=arrived)
    if group["lag"] is None:
        raise QueueSilent(
            f"Entries of {address.subject} were deleted: Redis does not know the lag of its group any more."
        )
    return QueueSample(float(group["lag"]), float(group["pending"]), arrived)


def redis_list(address: QueueAddress) -> RedisQueue:
    return RedisQueue(address, _list)


def redis_stream(address: QueueAddress) -> RedisQueue:
    return RedisQueue(address, _stream)
