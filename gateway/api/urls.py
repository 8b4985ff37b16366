from django.urls import path

from gateway.api.views import GATEWAY

urlpatterns = [path("clusters/<str:cluster>/gateway/", GATEWAY, name="gateway")]
