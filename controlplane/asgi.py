import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from channels.routing import ProtocolTypeRouter, URLRouter

from controlplane.garbage import collect_often_and_little, set_up_django

set_up_django()

# Only now: what is imported here needs the apps to be loaded.
from accounts.sockets import SocketCredentialsMiddleware  # noqa: E402
from clusters.api import heartbeats, node_reports, relay_reports  # noqa: E402
from clusters.api.fast_ingest import fast_ingest  # noqa: E402
from controlplane.bodies import bounded  # noqa: E402
from controlplane.handler import ThreadedASGIHandler  # noqa: E402
from controlplane.routing import websocket_urlpatterns  # noqa: E402

console = bounded(ThreadedASGIHandler())
endpoints = {one.path: one for one in (node_reports.ENDPOINT, heartbeats.ENDPOINT, relay_reports.ENDPOINT)}


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Django, but for what every machine and every worker sends every second."""
    endpoint = endpoints.get(scope["path"]) if scope["method"] == "POST" else None
    await (fast_ingest(endpoint, scope, receive, send) if endpoint else console(scope, receive, send))


application = ProtocolTypeRouter(
    {"http": http, "websocket": SocketCredentialsMiddleware(URLRouter(websocket_urlpatterns))}
)
collect_often_and_little()
