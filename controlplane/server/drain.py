"""How a web stops without losing a request or a socket.

`/readyz` answers 503 first, while everything is answered for `SLIPWAY_DRAIN_SECONDS`: proxies that ask it
look elsewhere, and one that goes by failures takes its other web back. Then new connections are refused,
which a proxy may try elsewhere whatever the request was. At last what runs is finished, and websockets are
closed with 1012, upon which pages connect again.
"""

import asyncio
import ctypes
import logging
import socket
import struct
from collections.abc import Iterable
from typing import Any

import uvicorn

from common.draining import draining, refusing

FINISHES_WITHIN_SECONDS = 20
"""So long requests may take that run when new connections are refused."""
ACCEPTS_FOR_SECONDS = 0.5
"""So long those that are connected already have to be taken and to send their request."""
SO_ATTACH_FILTER = 26
# The filter sees a segment from its TCP header on; byte 13 has the flags, and 2 of them is SYN.
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 2), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFF_FFFF))

logger = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """A web that a proxy can take away under load."""

    def __init__(self, config: uvicorn.Config, *, drain_seconds: float) -> None:
        super().__init__(config)
        self._drain_seconds = drain_seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        draining.set()
        if self._drain_seconds:
            logger.info("Not ready any more; new connections are refused in %s s.", self._drain_seconds)
        for _ in range(round(self._drain_seconds)):
            if self.force_exit:
                break
            await self.on_tick(0)
            await asyncio.sleep(1)
        if not self.force_exit:
            take_no_more(listener for server in self.servers for listener in server.sockets)
            refusing.set()
            await asyncio.sleep(ACCEPTS_FOR_SECONDS)
        await super().shutdown(sockets)


def take_no_more(listeners: Iterable[Any]) -> None:
    """Drop what asks to connect, so that the queue of those that are connected runs empty.

    A listening socket that is closed resets the connections in its queue, which may have sent a request.
    Clients whose segment is dropped ask again a second later, and are refused then.
    """
    instructions = b"".join(struct.pack("HBBI", *one) for one in DROP_SYN)
    held = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(held))
    for listener in listeners:
        try:
            listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        except OSError as error:
            logger.warning("New connections cannot be held back while this web closes: %s", error)
