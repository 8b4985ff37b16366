from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from identity import openid
from tests.identity.identity_provider import IdentityProvider

START = "/accounts/oidc/sso/login/"


@pytest.fixture
def provider(settings: Any) -> Iterator[IdentityProvider]:
    idp = IdentityProvider()
    openid.forget()
    settings.SLIPWAY_PUBLIC_URL = "https://slipway.example.org"
    settings.SLIPWAY_OIDC_SERVER_URL = idp.url
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "sso",
                    "name": "Example SSO",
                    "client_id": idp.client_id,
                    "secret": idp.client_secret,
                    "settings": {"server_url": idp.url},
                }
            ],
        }
    }
    yield idp
    idp.close()


def sign_in(client: Client, provider: IdentityProvider, **claims: Any) -> Any:
    provider.claims = claims
    sent = client.post(START)
    assert sent.status_code == 302
    assert sent["Location"].startswith(f"{provider.url}/authorize")
    return client.get(provider.authorize(sent["Location"]).removeprefix(settings.SLIPWAY_PUBLIC_URL))
