from django.urls import path

from common.pages import views

urlpatterns = [
    path("search/", views.find, name="search"),
    path("styleguide/", views.style_guide, name="styleguide"),
]
