"""Clients that connect and then do not speak, before a real Envoy."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perf.envoy_stack import STABLE, EnvoyStack
from perf.load import LoadClient

pytestmark = pytest.mark.stack

OPENINGS = (
    b"",
    b"POST /chat/v1 HTT",
    b"GET /chat/v1 HTTP/1.1\r\nhost: half\r\nx-more: ",
    b"POST /chat/v1/slow HTTP/1.1\r\nhost: half\r\ncontent-length: 10\r\n\r\n12",
    b"GET /chat/v1 HTTP/1.1\r\nhost: kept\r\n\r\n",
)


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[EnvoyStack]:
    one = EnvoyStack(tmp_path, header_seconds=1, idle_seconds=2, request_seconds=2)
    try:
        one.start()
        one.run_workers(STABLE)
        one.release()
        yield one
    finally:
        one.stop()


async def is_closed_after(port: int, opening: bytes) -> float:
    """Seconds until the gateway has closed the connection; a half header goes on byte by byte."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    began = time.monotonic()
    writer.write(opening)
    drips = opening.endswith(b"x-more: ")

    async def drip() -> None:
        while drips:
            await asyncio.sleep(0.2)
            writer.write(b"a")

    dripping = asyncio.create_task(drip())
    try:
        while await reader.read(65_536):
            pass
    except ConnectionError:
        pass
    finally:
        dripping.cancel()
        writer.close()
    return time.monotonic() - began


async def test_half_open_connections_are_closed_and_long_answers_are_not(stack: EnvoyStack) -> None:
    port = stack.layout.port
    stream = asyncio.create_task(LoadClient(port).get("/chat/v1/stream?chunks=20&every_ms=200"))
    silent = asyncio.create_task(LoadClient(port).get("/chat/v1/slow?ms=4000"))
    async with asyncio.timeout(30):
        spans = await asyncio.gather(*(is_closed_after(port, OPENINGS[n % 5]) for n in range(50)))
    assert min(spans) > 0.5
    answer = await stream
    assert len(answer.body) == 20 * len(STABLE.version)
    assert (await silent).status == 200
