from django.urls import path

from benchmarks import views

urlpatterns = [
    path("benchmarks/", views.benchmark_list, name="benchmarks"),
    path("benchmarks/+new/", views.new_benchmark, name="new-benchmark"),
    path("benchmarks/<int:pk>/", views.benchmark_page, name="benchmark"),
    path("benchmarks/<int:pk>/+cancel/", views.cancel, name="cancel-benchmark"),
    path("benchmarks/<int:pk>/+compare/", views.compare, name="compare-cells"),
]
