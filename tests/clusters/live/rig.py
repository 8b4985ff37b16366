"""The console under uvicorn with two workers that report, for what pages hear of them."""

import asyncio
import json
import socket
import threading
import time
from itertools import count
from typing import Any

import httpx2
import uvicorn
import websockets

from clusters.models import AgentToken, Cluster
from serving.protocol import Heartbeat
from tests.cast import token_of
from tests.patience import PATIENCE_SECONDS


class Site:
    """The console's ASGI application under uvicorn, in a thread of this process."""

    def __init__(self) -> None:
        from controlplane.asgi import application

        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(application, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    def socket(self, path: str, token: str, **headers: str) -> Any:
        return websockets.connect(
            f"ws://{self.address}{path}",
            additional_headers={"Authorization": f"Bearer {token}", **headers},
            open_timeout=60,
        )


def heartbeat(ordinal: int = 0, **fields: Any) -> dict[str, Any]:
    given = {
        "worker": f"chat-v1-{ordinal}",
        "deployment": "chat-v1",
        "service": "chat",
        "version": "story:v1",
        "engine": "echo",
        "device": "cpu",
        "machine": "box-1",
        "address": "127.0.0.1",
        "port": 20_000 + ordinal,
        "pid": 100 + ordinal,
        "state": "ready",
        "busy": 0.25,
        "in_flight": 1,
        "slots": 4,
        "started_at": 1.0,
        "at": time.time(),
    } | fields
    return Heartbeat(**given).to_dict()


numbers = count(1)


async def report(client: httpx2.AsyncClient, token: str, *beats: Any, **fields: Any) -> httpx2.Response:
    document = {
        "node": "box-1",
        "session": "first-session",
        "sequence": next(numbers),
        "workers": beats,
        "devices": [],
    }
    headers = {"Authorization": f"Bearer {token}"}
    return await client.post("node-reports/", json=document | fields, headers=headers)


def token_of_node(owner: Any, cluster: Cluster, **fields: Any) -> str:
    token = token_of(owner, **fields)
    AgentToken.objects.create(cluster=cluster, node_uid="box-1", token=owner.tokens.latest("pk"))
    return token


async def until(
    page: Any, path: str, value: Any, *, known: dict[str, Any] | None = None, within: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """Everything that the page knows by the time that it shows this value."""
    values = dict(known or {})
    async with asyncio.timeout(within):
        while values.get(path) != value:
            frame = json.loads(await page.recv())
            values |= frame.get("values", {})
    return values
