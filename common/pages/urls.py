from django.urls import path
from django.views.i18n import set_language

from common.pages import views

urlpatterns = [
    path("language/", set_language, name="set_language"),
    path("search/", views.find, name="search"),
    path("styleguide/", views.style_guide, name="styleguide"),
]
