from django.urls import path

from objectives import views

urlpatterns = [
    path("objectives/", views.overview, name="objectives"),
    path("objectives/+new/", views.new_objective, name="new-objective"),
    path("objectives/<int:pk>/", views.one, name="one-objective"),
    path("objectives/<int:pk>/settings/", views.settings, name="objective-settings"),
    path("objectives/<int:pk>/delete/", views.delete, name="delete-objective"),
]
