from django.urls import path

from gateway import views
from gateway.key_pages import PAGES as KEY_PAGES
from gateway.pages import PAGES

urlpatterns = [
    path("fleet/clusters/<str:name>/+gateway/", views.gateway, name="cluster-gateway"),
    path("fleet/clusters/<str:name>/+gateway/remove/", views.remove, name="remove-gateway"),
    path("services/<str:name>/+keys/<str:demanded>/", views.demand, name="demand-key"),
    *PAGES.urlpatterns,
    *KEY_PAGES.urlpatterns,
]
