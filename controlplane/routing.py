"""Every websocket path: what each app's `routing.py` offers, and the console's one socket for all topics."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from django.urls import path, re_path

from common.live.consumer import LiveConsumer
from controlplane.installed import offered


async def _refuse(_scope: Mapping[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "websocket.close"})


nowhere: Any = _refuse
"""There is no such path: refused before the handshake."""


websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    *(one for module in offered("routing") for one in import_module(module).websocket_urlpatterns),
    re_path("", nowhere),
]
