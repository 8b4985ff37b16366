from django.contrib import admin
from django.urls import path

from controlplane import health

urlpatterns = [
    path("admin/", admin.site.urls),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
]
