from django.urls import path

from common.live.consumer import LiveConsumer

websocket_urlpatterns = [path("ws/gpu-health/", LiveConsumer.as_asgi(topic="gpu-health"))]
