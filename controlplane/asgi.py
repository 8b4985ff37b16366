import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.embedded")

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

django = get_asgi_application()

# Only now: what is imported here needs the apps to be loaded.
from accounts.sockets import CredentialsOfSocket  # noqa: E402
from controlplane.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {"http": django, "websocket": CredentialsOfSocket(URLRouter(websocket_urlpatterns))}
)
