from django.urls import path
from rest_framework.routers import SimpleRouter

from benchmarks.api import load, views

router = SimpleRouter(use_regex_path=False)
router.register("benchmarks", views.Benchmarks, basename="benchmark")

urlpatterns = [
    path("benchmark-load/", load.LoadOrder.as_view({"get": "retrieve"}), name="load-order"),
    path("benchmark-load/progress/", load.LoadOrder.as_view({"put": "tell"}), name="load-progress"),
    path("benchmark-load/records/", load.LoadOrder.as_view({"put": "keep"}), name="load-records"),
    path("benchmark-load/result/", load.LoadOrder.as_view({"put": "hand_in"}), name="load-result"),
    *router.urls,
]
