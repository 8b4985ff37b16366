import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from channels.routing import ProtocolTypeRouter, URLRouter

from controlplane.garbage import collect_often_and_little, set_up_django

set_up_django()

# Only now: what is imported here needs the apps to be loaded.
from accounts.sockets import CredentialsOfSocket  # noqa: E402
from clusters.api import node_reports  # noqa: E402
from controlplane.bodies import bounded  # noqa: E402
from controlplane.handler import Handler  # noqa: E402
from controlplane.routing import websocket_urlpatterns  # noqa: E402

console = bounded(Handler())


async def http(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Django, but for what the agent of every machine sends every second."""
    is_report = scope["path"] == node_reports.PATH and scope["method"] == "POST"
    await (node_reports.short_way if is_report else console)(scope, receive, send)


application = ProtocolTypeRouter(
    {"http": http, "websocket": CredentialsOfSocket(URLRouter(websocket_urlpatterns))}
)
collect_often_and_little()
