"""Texts that go to many websockets at once, over real sockets and with clients of every kind."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from controlplane import shared_frames
from controlplane.shared_frames import SharedFrameProtocol

pytestmark = pytest.mark.process

LARGE = [", ".join(f"node.{number}.busy: {number * turn}" for number in range(4_000)) for turn in range(3)]
TEXTS = [LARGE[0], "node.7.busy: 0", LARGE[1], "node.7.busy: 1", "node.7.busy: 1", LARGE[2], "ü" * 2_000]


async def application(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    for text in TEXTS:
        await send({"type": "websocket.send", "text": text})
    await receive()


async def heard(url: str, **options: Any) -> tuple[list[str], int]:
    """Return the texts that a client gets, and how large they were on their way."""
    size = 0

    class Counting(ClientConnection):
        def data_received(self, data: bytes) -> None:
            nonlocal size
            size += len(data)
            super().data_received(data)

    async with asyncio.timeout(20), connect(url, create_connection=Counting, **options) as page:
        return [str(await page.recv()) for _ in TEXTS], size


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of which a frame was made."""
    found: list[str] = []
    original = shared_frames.Frame

    def frame(opcode: Any, data: bytes) -> Any:
        found.append(data.decode())
        return original(opcode, data)

    monkeypatch.setattr(shared_frames, "Frame", frame)
    shared_frames.frame_of.cache_clear()
    return found


def test_clients_of_every_kind_read_the_same_texts_which_are_compressed_once(made: list[str]) -> None:
    async def play() -> None:
        config = uvicorn.Config(application, ws=SharedFrameProtocol, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            url = f"ws://127.0.0.1:{listener.getsockname()[1]}/"
            narrow = ClientPerMessageDeflateFactory(server_max_window_bits=9)
            plain, few, *many = [
                await heard(url, compression=None),
                await heard(url, compression=None, extensions=[narrow]),
                *[await heard(url) for _ in range(3)],
            ]
            server.should_exit = True
            await serving
        assert all(texts == TEXTS for texts, _size in (plain, few, *many))
        assert plain[1] > 2 * max(size for _texts, size in (few, *many))

    asyncio.run(play())
    large = [text for text in made if len(text) >= shared_frames.LEAST_CHARACTERS]
    assert len(large) == 4 * 3, "each once uncompressed, for the narrow window and for all of the others"
