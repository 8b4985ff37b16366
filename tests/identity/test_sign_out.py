"""Signing out at both ends, and what a logout token of the provider may do."""

import time
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from accounts.models import User
from tests.cast import PASSWORD, client_of, person
from tests.identity.conftest import sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
LOGOUT = "/accounts/oidc/sso/backchannel-logout/"


def is_signed_in(client: Client) -> bool:
    return client.get("/api/v1/me/").status_code == 200


def test_signing_out_leads_to_the_provider_with_its_own_token(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    answer = client.post("/accounts/logout/")
    place = urlsplit(answer["Location"])
    asked = {name: values[0] for name, values in parse_qs(place.query).items()}
    assert answer["Location"].startswith(f"{provider.url}/end?")
    assert asked["id_token_hint"].count(".") == 2
    assert asked["client_id"] == provider.client_id
    assert urlsplit(asked["post_logout_redirect_uri"]).path == "/accounts/signed-out/"
    assert not is_signed_in(client)
    assert client.get("/accounts/signed-out/").status_code == 200


def test_a_session_by_password_ends_here_alone(provider):
    browser = Client()
    person("ada")
    browser.post("/accounts/login/", {"login": "ada", "password": PASSWORD})
    assert browser.post("/accounts/logout/")["Location"] == "/"


def test_with_the_provider_down_one_is_signed_out_here_and_told_so(provider, client):
    from identity import openid

    sign_in(client, provider, sub="7", preferred_username="ada")
    provider.close()
    openid.forget()
    answer = client.post("/accounts/logout/", follow=True)
    assert "cannot be reached" in answer.content.decode()
    assert not is_signed_in(client)


class TestBackChannel:
    def test_it_ends_the_one_session_that_it_names(self, provider):
        first, second = Client(), Client()
        sign_in(first, provider, sub="7", preferred_username="ada", sid="one")
        sign_in(second, provider, sub="7", preferred_username="ada", sid="two")
        answer = Client(enforce_csrf_checks=True).post(
            LOGOUT, {"logout_token": provider.logout_token(sub="7", sid="one")}
        )
        assert answer.status_code == 200
        assert not is_signed_in(first)
        assert is_signed_in(second)

    def test_it_ends_every_session_of_the_person_it_names(self, provider):
        first, second, other = Client(), Client(), Client()
        sign_in(first, provider, sub="7", preferred_username="ada", sid="one")
        sign_in(second, provider, sub="7", preferred_username="ada", sid="two")
        sign_in(other, provider, sub="8", preferred_username="bob")
        assert Client().post(LOGOUT, {"logout_token": provider.logout_token(sub="7")}).status_code == 200
        assert not is_signed_in(first)
        assert not is_signed_in(second)
        assert is_signed_in(other)

    @pytest.mark.parametrize(
        "forged",
        [
            pytest.param(lambda idp: idp.logout_token(sub="7", aud="another"), id="another audience"),
            pytest.param(lambda idp: idp.logout_token(sub="7", iss="https://evil.example"), id="issuer"),
            pytest.param(lambda idp: idp.logout_token(sub="7", events={}), id="no event"),
            pytest.param(lambda idp: idp.logout_token(sub="7", nonce="n"), id="an id_token"),
            pytest.param(lambda idp: idp.logout_token(sub="7", jti=""), id="no jti"),
            pytest.param(lambda idp: idp.logout_token(), id="names nobody"),
            pytest.param(lambda idp: idp.logout_token(sub="7", exp=int(time.time()) - 60), id="expired"),
            pytest.param(lambda idp: idp.logout_token(sub="7", iat=int(time.time()) - 900), id="old"),
            pytest.param(lambda idp: idp.logout_token(sub="7").rpartition(".")[0] + ".", id="unsigned"),
            pytest.param(lambda idp: _hs256(idp), id="HS256 over the public key"),
            pytest.param(lambda idp: _none(idp), id="alg none"),
            pytest.param(lambda idp: idp.sign({"sub": "7"}, kid="unknown"), id="unknown key"),
            pytest.param(lambda idp: "x" * 20_000, id="long"),
            pytest.param(lambda idp: "", id="empty"),
        ],
    )
    def test_a_forged_one_ends_nothing(self, provider, client, forged):
        sign_in(client, provider, sub="7", preferred_username="ada", sid="one")
        answer = Client().post(LOGOUT, {"logout_token": forged(provider)})
        assert answer.status_code == 400
        assert is_signed_in(client)

    def test_a_used_one_ends_no_later_session(self, provider, client):
        token = provider.logout_token(sub="7")
        assert Client().post(LOGOUT, {"logout_token": token}).status_code == 200
        sign_in(client, provider, sub="7", preferred_username="ada")
        assert Client().post(LOGOUT, {"logout_token": token}).status_code == 400
        assert is_signed_in(client)

    def test_a_new_key_of_the_provider_is_fetched_once_and_an_unknown_one_not_again_and_again(
        self, provider, client, monkeypatch
    ):
        from identity import openid

        Client().post(LOGOUT, {"logout_token": provider.logout_token(sub="7")})
        assert provider.key_requests == 1
        for _ in range(5):
            Client().post(LOGOUT, {"logout_token": provider.sign({"iss": provider.url}, kid="unknown")})
        assert provider.key_requests == 1
        monkeypatch.setattr(openid, "KEYS_AT_MOST_EVERY_SECONDS", 0.0)
        provider.rotate_key()
        sign_in(client, provider, sub="7", preferred_username="ada")
        token = provider.logout_token(sub="7")
        assert Client().post(LOGOUT, {"logout_token": token}).status_code == 200
        assert not is_signed_in(client)

    def test_without_a_provider_there_is_no_such_address(self, client):
        assert client.post(LOGOUT, {"logout_token": "x"}).status_code == 404


def _claims(idp):
    return {"iss": idp.url, "aud": idp.client_id, "sub": "7", "iat": int(time.time()), "jti": "j",
            "events": {"http://schemas.openid.net/event/backchannel-logout": {}}}  # fmt: skip


def _hs256(idp):
    import base64
    import hashlib
    import hmac
    import json

    def coded(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    head = coded(json.dumps({"alg": "HS256", "kid": idp.kid}).encode())
    signed = head + b"." + coded(json.dumps(_claims(idp)).encode())
    key = json.dumps(idp.published_key).encode()
    return (signed + b"." + coded(hmac.new(key, signed, hashlib.sha256).digest())).decode()


def _none(idp):
    import jwt

    return jwt.encode(_claims(idp), None, algorithm="none", headers={"kid": idp.kid})


def test_sessions_of_a_person_end_in_every_browser_by_raising_one_number():
    ada = person("ada")
    first, second = client_of(ada), client_of(ada)
    from accounts.services.provisioned import end_sessions
    from tests.cast import SYSTEM

    end_sessions(actor=SYSTEM, user=User.objects.get(pk=ada.pk))
    assert not is_signed_in(first)
    assert not is_signed_in(second)
