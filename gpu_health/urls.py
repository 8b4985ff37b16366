from django.urls import path

from gpu_health import views

urlpatterns = [
    path("gpu-health/", views.finding_list, name="gpu-findings"),
    path("gpu-health/findings/<int:pk>/", views.finding_page, name="gpu-finding"),
    path("gpu-health/findings/<int:pk>/+close/", views.close, name="close-gpu-finding"),
    path("gpu-health/rules/", views.rule_list, name="gpu-rules"),
    path("gpu-health/rules/<str:name>/", views.rule_page, name="gpu-rule"),
    path("gpu-health/rules/<str:name>/+reset/", views.reset, name="reset-gpu-rule"),
    path("gpu-health/disagreements/", views.disagreement_list, name="gpu-disagreements"),
]
