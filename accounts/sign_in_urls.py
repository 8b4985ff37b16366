"""Signing in by password. Of what allauth offers, only what Slipway uses: no sign-up, no mail, no linking.

`identity.sign_on_urls` holds single sign-on and signing out.
"""

from allauth.account import views
from django.contrib.auth.decorators import login_required
from django.urls import path
from django.views.generic import TemplateView

elsewhere = login_required(TemplateView.as_view(template_name="account/password_elsewhere.html"))

urlpatterns = [
    path("login/", views.login, name="account_login"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("password/change/", views.password_change, name="account_change_password"),
    path("password/set/", elsewhere, name="account_set_password"),
]
