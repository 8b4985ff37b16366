"""Signing in and out. Of what allauth offers, only what Slipway uses: no sign-up, no mail, no linking."""

from allauth.account import views
from allauth.socialaccount import views as single_sign_on
from allauth.socialaccount.providers.openid_connect import views as openid_connect
from django.contrib.auth.decorators import login_required
from django.urls import path
from django.views.generic import RedirectView, TemplateView

from accounts.views.sign_in import start_single_sign_on

elsewhere = login_required(TemplateView.as_view(template_name="account/password_elsewhere.html"))

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("password/change/", views.password_change, name="account_change_password"),
    path("password/set/", elsewhere, name="account_set_password"),
    path("oidc/<slug:provider_id>/login/", start_single_sign_on, name="openid_connect_login"),
    path("oidc/<slug:provider_id>/login/callback/", openid_connect.callback, name="openid_connect_callback"),
    path("oidc/cancelled/", single_sign_on.login_cancelled, name="socialaccount_login_cancelled"),
    path("oidc/error/", single_sign_on.login_error, name="socialaccount_login_error"),
    # Linking a second identity to an account is not offered; allauth still asks for the address of its page.
    path("oidc/", RedirectView.as_view(url="/"), name="socialaccount_connections"),
]
