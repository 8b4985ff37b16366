from django.urls import path

from identity.scim import views

# Identity providers differ in whether they send the slash.
urlpatterns = [
    path("Users", views.users),
    path("Users/<str:pk>", views.user),
    path("Groups", views.groups),
    path("Groups/<str:pk>", views.group),
    path("ServiceProviderConfig", views.about, {"what": "ServiceProviderConfig"}),
    path("Schemas", views.about, {"what": "Schemas"}),
    path("ResourceTypes", views.about, {"what": "ResourceTypes"}),
]
