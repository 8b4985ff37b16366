from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane.home.views import home

# One door for everyone, with its lockout: the admin has no login page of its own.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

urlpatterns = [
    path("", home, name="home"),
    path("", include("common.pages.urls")),
    path("", include("accounts.page_urls")),
    path("", include("identity.urls")),
    path("", include("clusters.urls")),
    path("", include("gateway.urls")),
    path("", include("images.urls")),
    path("", include("gpu_health.urls")),
    path("", include("model_store.urls")),
    path("", include("trust.urls")),
    path("", include("hubs.urls")),
    path("", include("models_registry.urls")),
    path("", include("releases.urls")),
    path("accounts/", include("accounts.urls")),
    path("accounts/", include("identity.sign_on_urls")),
    path("scim/v2/", include("identity.scim.urls")),
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/", admin.site.urls),
    path("api/v1/", include("controlplane.api_urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(template_name="api/docs.html"), name="docs"),
]

handler400 = "common.api.outside.bad_request"
handler403 = "common.api.outside.permission_denied"
handler404 = "common.api.outside.page_not_found"
handler500 = "common.api.outside.server_error"
