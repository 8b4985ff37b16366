"""The OpenID Connect provider as allauth knows it: allauth reads `provider_classes` of each app."""

import secrets
from typing import Any, cast

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect import provider, views
from django.http import HttpRequest


class OpenIDConnectAdapter(views.OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Keeps what signing out will need, and refuses two answers about two people."""

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        """Raises OAuth2Error."""
        login = super().complete_login(request, app, token, **kwargs)
        told = login.account.extra_data
        signed, fetched = told.get("id_token"), told.get("userinfo")
        if not signed:
            raise OAuth2Error("The provider sent no id_token.")
        if fetched and fetched.get("sub") != signed.get("sub"):
            # OpenID Connect Core 1.0, 5.3.2
            raise OAuth2Error("The provider's userinfo is about somebody else than its id_token.")
        login.id_token = kwargs["response"]["id_token"]
        return login


class Provider(provider.OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = OpenIDConnectAdapter

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """With a nonce, which the id_token must repeat. Nothing of it is taken from the address."""
        kwargs = cast("dict[str, Any]", super().get_redirect_from_request_kwargs(request))
        nonce = secrets.token_urlsafe(24)
        given = {"process": "login", "scope": self.get_scope(), "nonce": nonce}
        return kwargs | given | {"auth_params": self.get_auth_params() | {"nonce": nonce}}


provider_classes = [Provider]
