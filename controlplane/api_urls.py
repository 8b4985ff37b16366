"""`/api/v1/`: what each app's `api/urls.py` offers."""

from django.urls import include, path

urlpatterns = [
    path("", include("accounts.api.urls")),
    path("", include("identity.api.urls")),
    path("", include("model_store.api.urls")),
    path("", include("trust.api.urls")),
    path("", include("hubs.api.urls")),
    path("", include("models_registry.api.urls")),
    path("", include("images.api.urls")),
    path("", include("clusters.api.urls")),
    path("", include("gateway.api.urls")),
    path("", include("gpu_health.api.urls")),
    path("", include("releases.api.urls")),
]
