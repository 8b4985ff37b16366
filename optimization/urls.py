from django.urls import path

from optimization import views

urlpatterns = [
    path("optimizations/", views.run_list, name="optimizations"),
    path("optimizations/+new/", views.new_run, name="new-optimization"),
    path("optimizations/<int:pk>/", views.run_page, name="optimization"),
    path("optimizations/<int:pk>/+cancel/", views.cancel, name="cancel-optimization"),
]
