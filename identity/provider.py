"""Identity providers as allauth knows them: it reads `provider_classes` of each app."""

import secrets
from typing import Any, cast

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect import provider, views
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from identity import saml


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


class Saml(SAMLProvider):  # type: ignore[misc]
    default_attribute_mapping = saml.ATTRIBUTES

    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:
        return reverse("saml-login") + (f"?{urlencode(kwargs)}" if kwargs else "")

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Nothing of it is taken from the address but where to go afterwards."""
        kwargs = cast("dict[str, Any]", super().get_redirect_from_request_kwargs(request))
        return kwargs | {"process": "login"}

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **kwargs: Any
    ) -> HttpResponseRedirect:
        """Raises ProviderUnavailable."""
        url, request_id = saml.request_to_sign_in()
        self.stash_redirect_state(request, process, next_url, data, state_id=request_id, **kwargs)
        return HttpResponseRedirect(url)


provider_classes = [Provider, Saml]
