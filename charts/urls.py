from django.urls import path

from charts import views

urlpatterns = [path("charts/<str:kind>/<str:name>/", views.charts, name="charts")]
