"""Frames of websockets that are made once for all the sockets that get the same text.

`uvicorn --ws controlplane.shared_frames:SharedFrameProtocol`. uvicorn itself encodes and compresses a text
once per socket: a second of a large fleet, for hundreds of pages, takes more than a core and as many copies.
"""

from functools import lru_cache
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Frame, Opcode
from websockets.protocol import State

LEAST_CHARACTERS = 1_000
"""Shorter texts are hardly ever for many, and go uncompressed."""
FRAMES_KEPT = 8


class SharedFrameProtocol(WebSocketsSansIOProtocol):
    """Sends every message without regard to those before it, so that it can be shared. A socket's own
    compressor is never asked: its back references would miss what was compressed here.
    """

    async def send(self, message: Any) -> None:
        if message["type"] != "websocket.send" or not self.handshake_complete:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected or self.conn.state is not State.OPEN:
            raise ClientDisconnected
        text = message.get("text")
        if text is None:
            frame = Frame(Opcode.BINARY, message["bytes"]).serialize(mask=False)
        elif len(text) < LEAST_CHARACTERS:
            frame = Frame(Opcode.TEXT, text.encode()).serialize(mask=False)
        else:
            frame = frame_of(text, self._window_bits())
        self.transport.write(frame)

    def _window_bits(self) -> int:
        """Return what the client has room for; 0: it takes nothing compressed."""
        found = (one for one in self.conn.extensions if isinstance(one, PerMessageDeflate))
        return next((one.local_max_window_bits for one in found), 0)


@lru_cache(maxsize=FRAMES_KEPT)
def frame_of(text: str, window_bits: int) -> bytes:
    """Return the whole text as one frame, compressed unless `window_bits` is 0 (RFC 7692)."""
    frame = Frame(Opcode.TEXT, text.encode())
    if not window_bits:
        return frame.serialize(mask=False)
    alone = PerMessageDeflate(
        remote_no_context_takeover=True,
        local_no_context_takeover=True,
        remote_max_window_bits=window_bits,
        local_max_window_bits=window_bits,
        compress_settings={"level": 1},
    )
    return frame.serialize(mask=False, extensions=[alone])
