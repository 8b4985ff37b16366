from django.urls import path

from common.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/releases/<int:key>/", LiveConsumer.as_asgi(topic="release"))]
