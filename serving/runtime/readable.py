"""Waiting for a file descriptor on the event loop."""

import asyncio


async def until_readable(descriptor: int) -> None:
    """Return when there is something to read; of a process (`pidfd_open`), when it has ended."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(descriptor, _settle, readable)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)


def _settle(readable: "asyncio.Future[None]") -> None:
    if not readable.done():
        readable.set_result(None)
