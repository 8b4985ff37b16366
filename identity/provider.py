"""Identity providers as allauth knows them: it reads `provider_classes` of each app."""

import logging
import secrets
from collections.abc import Mapping
from typing import Any, cast

from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect import provider, views
from allauth.socialaccount.providers.saml.provider import SAMLProvider
from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from identity import assertions, openid, saml
from identity.errors import BadAssertion

logger = logging.getLogger(__name__)


class OpenIDConnectAdapter(views.OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """Asks the provider over `identity.openid`, and believes an id_token by its signature alone.

    Keeps what signing out will need.
    """

    @property
    def openid_config(self) -> Mapping[str, Any]:
        """Raises ProviderUnavailable."""
        return openid.discovery(settings.SLIPWAY_OIDC_SERVER_URL)

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        path = reverse("openid_connect_callback", kwargs={"provider_id": self.provider_id})
        return f"{settings.SLIPWAY_PUBLIC_URL}{path}"

    def get_access_token_data(
        self, request: HttpRequest, app: Any, client: Any, pkce_code_verifier: str | None = None
    ) -> Mapping[str, Any]:
        """Raises OAuth2Error, ProviderUnavailable."""
        grant = {
            "grant_type": "authorization_code",
            "code": request.GET.get("code", ""),
            "redirect_uri": self.get_callback_url(request, app),
        } | ({"code_verifier": pkce_code_verifier} if pkce_code_verifier else {})
        try:
            tokens = openid.ask_for_tokens(
                settings.SLIPWAY_OIDC_SERVER_URL, client_id=app.client_id, secret=app.secret, grant=grant
            )
        except openid.GrantRefused as error:
            raise OAuth2Error(str(error)) from error
        if not (tokens.get("id_token") and tokens.get("access_token")):
            raise OAuth2Error("The provider sent no id_token or no access token.")
        return tokens

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        """Raises OAuth2Error, ProviderUnavailable."""
        text, server_url = str(kwargs["response"]["id_token"]), settings.SLIPWAY_OIDC_SERVER_URL
        try:
            claims = assertions.id_token(
                text, server_url=server_url, client_id=app.client_id, access_token=token.token
            )
        except BadAssertion as error:
            logger.warning("The identity provider's id_token is refused: %s", error)
            raise OAuth2Error(str(error)) from error
        userinfo = openid.userinfo(server_url, token.token)
        if userinfo and userinfo.get("sub") != claims["sub"]:
            # OpenID Connect Core 1.0, 5.3.2
            raise OAuth2Error("The provider's userinfo is about somebody else than its id_token.")
        data = {"id_token": claims, "userinfo": userinfo} if userinfo else {"id_token": claims}
        login = self.get_provider().sociallogin_from_response(request, data)
        login.id_token = text
        return login


class Provider(provider.OpenIDConnectProvider):  # type: ignore[misc]
    oauth2_adapter_class = OpenIDConnectAdapter

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        """Add a nonce, which the id_token must repeat. Nothing of it is taken from the address."""
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
