from django.urls import path

from charts.api.views import ChartFigures

urlpatterns = [
    path("charts/<str:kind>/<str:name>/", ChartFigures.as_view({"get": "show"}), name="chart-figures")
]
