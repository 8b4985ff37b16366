from django.urls import path

from trust import views

# A plus sign begins no name of a model, a version or an alias.
urlpatterns = [
    path("settings/teams/<str:name>/signatures/", views.signature_page, name="signatures"),
    path("settings/teams/<str:name>/signatures/+trust/", views.trust, name="trust-key"),
    path("settings/teams/<str:name>/signatures/+demand/", views.demand, name="demand-signatures"),
    path("settings/teams/<str:name>/signatures/<int:pk>/+remove/", views.distrust, name="distrust-key"),
]
