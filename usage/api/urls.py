from django.urls import path
from rest_framework.routers import SimpleRouter

from usage.api.views import Budgets, UsageReport

router = SimpleRouter(use_regex_path=False)
router.register("budgets", Budgets, basename="budget")

urlpatterns = [path("usage/", UsageReport.as_view({"get": "report"}), name="usage-report"), *router.urls]
