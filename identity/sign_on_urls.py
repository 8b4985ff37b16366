"""Single sign-on, and signing out. No sign-up, no linking of a second identity."""

from allauth.socialaccount import views
from django.urls import path
from django.views.generic import RedirectView

from identity.views import saml, sign_in, sign_out

urlpatterns = [
    path("logout/", sign_out.log_out, name="account_logout"),
    path("signed-out/", sign_out.signed_out, name="signed-out"),
    path("oidc/<slug:provider_id>/login/", sign_in.start_single_sign_on, name="openid_connect_login"),
    path("oidc/<slug:provider_id>/login/callback/", sign_in.callback, name="openid_connect_callback"),
    path("oidc/<slug:provider_id>/backchannel-logout/", sign_out.backchannel, name="backchannel-logout"),
    path("oidc/cancelled/", views.login_cancelled, name="socialaccount_login_cancelled"),
    path("oidc/error/", views.login_error, name="socialaccount_login_error"),
    path("saml/login/", saml.start, name="saml-login"),
    path("saml/acs/", saml.answer, name="saml-acs"),
    path("saml/finish/", saml.finish, name="saml-finish"),
    path("saml/sign-out/", saml.sign_out, name="saml-sign-out"),
    path("saml/metadata/", saml.metadata, name="saml-metadata"),
    # allauth asks for the address of its page.
    path("oidc/", RedirectView.as_view(url="/"), name="socialaccount_connections"),
]
