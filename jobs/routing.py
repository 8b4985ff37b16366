from django.urls import path

from common.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/jobs/<slug:key>/", LiveConsumer.as_asgi(topic="job"))]
