"""Every websocket path: what each app's `routing.py` offers, and the console's one socket for all topics."""

from collections.abc import Mapping
from typing import Any

from django.urls import path, re_path

from clusters.routing import websocket_urlpatterns as clusters
from common.live.consumer import LiveConsumer
from gpu_health.routing import websocket_urlpatterns as gpu_health
from releases.routing import websocket_urlpatterns as releases


async def _refuse(_scope: Mapping[str, Any], _receive: Any, send: Any) -> None:
    await send({"type": "websocket.close"})


nowhere: Any = _refuse
"""There is no such path: refused before the handshake."""


websocket_urlpatterns = [
    path("ws/live/", LiveConsumer.as_asgi()),
    *clusters,
    *gpu_health,
    *releases,
    re_path("", nowhere),
]
