"""An id_token is believed by its signature and its claims, never because it came over TLS."""

import base64
import hashlib
import os
import subprocess
import sys

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from django.conf import settings as django_settings

from accounts.models import User
from identity import openid
from tests.identity.conftest import START, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
STRANGER = generate_private_key(SECP256R1())


def signs_in(client, provider, **claims):
    sign_in(client, provider, **{"sub": "7", "preferred_username": "ada", **claims})
    return client.get("/api/v1/me/").status_code == 200


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(lambda idp, claims: jwt.encode(claims, None, algorithm="none"), id="alg none"),
        pytest.param(
            lambda idp, claims: jwt.encode(
                claims, "provider-secret" * 3, algorithm="HS256", headers={"kid": idp.kid}
            ),
            id="HS256 with a shared secret",
        ),
        pytest.param(
            lambda idp, claims: jwt.encode(claims, STRANGER, algorithm="ES256", headers={"kid": idp.kid}),
            id="a foreign key under the provider's name",
        ),
        pytest.param(
            lambda idp, claims: jwt.encode(claims, STRANGER, algorithm="ES256"), id="a foreign key, unnamed"
        ),
        pytest.param(
            lambda idp, claims: jwt.encode(
                claims, STRANGER, algorithm="ES256", headers={"jku": "https://evil.example/jwks"}
            ),
            id="a foreign key by address",
        ),
        pytest.param(lambda idp, claims: idp.sign(claims)[:-6] + "AAAAAA", id="a spoilt signature"),
        pytest.param(
            lambda idp, claims: jwt.encode(
                claims, generate_rsa_key(65537, 2048), algorithm="RS256", headers={"kid": idp.kid}
            ),
            id="an algorithm that the provider does not announce",
        ),
    ],
)
def test_who_cannot_sign_for_the_provider_signs_nobody_in(client, provider, sign):
    provider.sign_id_token = lambda claims: sign(provider, claims)
    assert not signs_in(client, provider)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another-client"},
        {"aud": []},
        {"aud": ["slipway", "another-client"]},
        {"aud": ["slipway", "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": 1_700_000_000},
        {"iat": 4_000_000_000},
        {"nonce": "another"},
        {"nonce": None},
        {"at_hash": "bm90IHRoaXMgb25l"},
        {"sub": None},
    ],
    ids=str,
)
def test_an_id_token_for_somebody_else_or_another_time_signs_nobody_in(client, provider, claims):
    def sign(made):
        merged = {**made, **claims}
        return provider.sign({name: value for name, value in merged.items() if value is not None})

    provider.sign_id_token = sign
    assert not signs_in(client, provider)
    assert not User.objects.exists()


def test_several_audiences_with_us_as_the_authorized_party_are_fine(client, provider):
    assert signs_in(client, provider, aud=["slipway", "another-client"], azp="slipway")


def test_the_access_token_is_the_one_that_the_id_token_names(client, provider):
    def sign(claims):
        (code,) = provider.granted  # The provider's access token is the code.
        digest = hashlib.sha256(code.encode()).digest()[:16]
        return provider.sign({**claims, "at_hash": base64.urlsafe_b64encode(digest).rstrip(b"=").decode()})

    provider.sign_id_token = sign
    assert signs_in(client, provider)


@pytest.mark.parametrize("keeps_the_name", [False, True])
def test_rotated_keys_are_fetched_once(client, provider, monkeypatch, keeps_the_name):
    assert signs_in(client, provider)
    client.logout()
    kid = provider.kid
    provider.rotate_key()
    provider.kid = kid if keeps_the_name else provider.kid
    monkeypatch.setattr(openid, "KEYS_AT_MOST_EVERY_SECONDS", 0.0)
    before = provider.key_requests
    assert signs_in(client, provider)
    assert provider.key_requests == before + 1


def test_forged_tokens_do_not_make_the_keys_be_fetched_each_time(client, provider):
    provider.sign_id_token = lambda claims: jwt.encode(claims, STRANGER, algorithm="ES256")
    for _ in range(3):
        assert not signs_in(client, provider)
    assert provider.key_requests == 1


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("authorization_endpoint", "http://sso.example.org/x"),
        ("token_endpoint", "http://sso.example.org/x"),
        ("jwks_uri", "ftp://127.0.0.1/x"),
        ("userinfo_endpoint", "//127.0.0.1/x"),
        ("issuer", "http://sso.example.org"),
        ("issuer", ""),
    ],
)
def test_a_provider_whose_addresses_are_not_https_is_not_asked(client, provider, name, address):
    provider.metadata = {name: address}
    answer = client.post(START)
    assert answer.status_code == 502
    assert b"Single sign-on failed" in answer.content


def test_a_provider_on_this_machine_needs_a_setting(client, provider, settings):
    settings.SLIPWAY_LOOPBACK_PROVIDERS = False
    assert client.post(START).status_code == 502


@pytest.mark.parametrize(
    ("variable", "address", "is_allowed", "starts"),
    [
        ("SLIPWAY_CI_ISSUERS", "http://gitlab.example.org", "true", False),
        ("SLIPWAY_CI_ISSUERS", "http://127.0.0.1:1", "false", False),
        ("SLIPWAY_CI_ISSUERS", "http://127.0.0.1:1", "true", True),
        ("SLIPWAY_SAML_METADATA", "http://sso.example.org/metadata", "true", False),
        ("SLIPWAY_OIDC_SERVER_URL", "http://sso.example.org", "false", False),
    ],
)
def test_settings_refuse_providers_over_http(variable, address, is_allowed, starts):
    environment = {**os.environ, variable: address, "SLIPWAY_LOOPBACK_PROVIDERS": is_allowed}
    started = subprocess.run(
        [sys.executable, "-c", "import controlplane.env"],
        cwd=django_settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (started.returncode == 0) is starts, started.stderr
    assert starts or f"{variable}: must start with https://" in started.stderr


def test_the_provider_leads_back_to_the_public_address(client, provider, settings):
    settings.SLIPWAY_PUBLIC_URL = "https://models.example.org"
    sent = client.post(START, HTTP_HOST="testserver")
    assert "redirect_uri=https%3A%2F%2Fmodels.example.org%2Faccounts%2Foidc" in sent["Location"]
    provider.claims = {"sub": "7"}
    back = provider.authorize(sent["Location"])
    client.get(back.removeprefix("https://models.example.org"))
    assert client.get("/api/v1/me/").status_code == 200
