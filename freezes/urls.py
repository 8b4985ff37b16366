from django.urls import path

from freezes import views

urlpatterns = [
    path("releases/freezes/", views.overview, name="freezes"),
    path("releases/freezes/+new/", views.new_freeze, name="new-freeze"),
    path("releases/freezes/+stop/", views.stop, name="stop-releases"),
    path("releases/freezes/<int:pk>/end/", views.end, name="end-freeze"),
]
