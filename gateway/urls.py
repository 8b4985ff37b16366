from django.urls import path

from gateway import views
from gateway.pages import PAGES

urlpatterns = [
    path("fleet/clusters/<str:name>/+gateway/", views.gateway, name="cluster-gateway"),
    path("fleet/clusters/<str:name>/+gateway/remove/", views.remove, name="remove-gateway"),
    *PAGES.urlpatterns,
]
