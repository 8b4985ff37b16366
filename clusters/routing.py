from django.urls import path

from common.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/fleet/", LiveConsumer.as_asgi(topic="fleet"))]
