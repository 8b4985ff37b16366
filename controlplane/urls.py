"""Every address: of pages, what each app's `urls.py` offers; of REST, what its `api/urls.py` does."""

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane.home.views import home
from controlplane.installed import offered

# One door for everyone, with its lockout: the admin has no login page of its own.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

urlpatterns = [
    path("", home, name="home"),
    path("", include("common.pages.urls")),
    *(path("", include(module)) for module in offered("urls")),
    path("admin/password_change/", RedirectView.as_view(pattern_name="account_change_password")),
    path("admin/", admin.site.urls),
    path("api/v1/", include([path("", include(module)) for module in offered("api.urls")])),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(template_name="api/docs.html"), name="docs"),
]

handler400 = "common.api.outside.bad_request"
handler403 = "common.api.outside.permission_denied"
handler404 = "common.api.outside.page_not_found"
handler500 = "common.api.outside.server_error"
