from django.urls import path
from rest_framework.routers import SimpleRouter

from optimization.api import views
from optimization.api.job import OptimizationJob

router = SimpleRouter(use_regex_path=False)
router.register("optimizations", views.Optimizations, basename="optimization")
JOB, as_view = "optimization-job/", OptimizationJob.as_view

urlpatterns = [
    path(JOB, as_view({"get": "retrieve"}), name="optimization-order"),
    path(
        f"{JOB}inputs/<int:version>/<str:sha256>/",
        as_view({"get": "read_input"}),
        name="optimization-input",
    ),
    path(f"{JOB}progress/", as_view({"put": "tell"}), name="optimization-progress"),
    path(f"{JOB}files/<str:sha256>/", as_view({"put": "keep"}), name="optimization-file"),
    path(f"{JOB}result/", as_view({"put": "hand_in"}), name="optimization-result"),
    *router.urls,
]
