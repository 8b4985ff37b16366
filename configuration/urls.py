from django.urls import path

from configuration import views

urlpatterns = [
    path("settings/configuration/", views.overview, name="configuration"),
    path("settings/configuration/<int:pk>/forget/", views.forget, name="forget-document"),
]
