"""Connections to addresses that somebody has judged: a name is resolved once, and that is where they go.

What the name means a moment later (DNS rebinding) is of no interest. With a proxy it is the proxy's address.
"""

import socket
from collections.abc import Callable, Sequence
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

Judge = Callable[[str, int], Sequence[str]]
"""The addresses of a host and port that may be connected to. Raises KubeError when there are none."""


def pin(pool: urllib3.PoolManager, judge: Judge) -> None:
    """Make all further connections of the pool pinned ones."""

    def to_judged(connection: Any, connect: Callable[[], socket.socket]) -> socket.socket:
        name = connection._dns_host
        failure: Exception | None = None
        try:
            for address in judge(connection.host, connection.port):
                # Where it connects; what TLS and `Host` name is asked for when that has been put back.
                connection._dns_host = address
                try:
                    return connect()
                except (urllib3.exceptions.HTTPError, OSError) as error:
                    failure = error
        finally:
            connection._dns_host = name
        raise failure or OSError("it has no address")

    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            return to_judged(self, super()._new_conn)

    class Secured(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            return to_judged(self, super()._new_conn)

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecuredPool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secured

    pool.pool_classes_by_scheme = {"http": PlainPool, "https": SecuredPool}
