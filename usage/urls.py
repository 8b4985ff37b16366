from django.urls import path

from usage import views
from usage.pages import BUDGET_PAGES

urlpatterns = [
    path("usage/", views.report, name="usage"),
    path("usage/usage.csv", views.as_csv, name="usage-csv"),
    *BUDGET_PAGES.urlpatterns,
]
