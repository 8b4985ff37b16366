"""SAML with a key of our own: requests that are signed, assertions that are encrypted, and single logout."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client

from identity.models import Identity, ProviderSession
from tests.cast import person
from tests.identity.saml_provider import SamlProvider, is_signed_by, message
from tests.identity.test_saml import START, idp, post, sign_in, signed_in_as

__all__ = ["idp"]
pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
SIGN_OUT = "http://testserver/accounts/saml/sign-out/"


@pytest.fixture
def own(settings: Any, tmp_path: Path, idp: SamlProvider) -> SamlProvider:
    """A pair of which Slipway uses the key and certificate."""
    pair = SamlProvider()
    (tmp_path / "own.key").write_text(pair.private_key)
    (tmp_path / "own.crt").write_text(pair.certificate)
    settings.SLIPWAY_SAML_KEY = str(tmp_path / "own.key")
    settings.SLIPWAY_SAML_CERTIFICATE = str(tmp_path / "own.crt")
    return pair


@pytest.fixture
def second(settings: Any, tmp_path: Path, own: SamlProvider) -> SamlProvider:
    """A pair that Slipway uses as its second."""
    pair = SamlProvider()
    (tmp_path / "second.key").write_text(pair.private_key)
    (tmp_path / "second.crt").write_text(pair.certificate)
    settings.SLIPWAY_SAML_SECOND_KEY = str(tmp_path / "second.key")
    settings.SLIPWAY_SAML_SECOND_CERTIFICATE = str(tmp_path / "second.crt")
    return pair


def body(pair: SamlProvider) -> str:
    """Return the body of the certificate, as metadata shows it."""
    return "".join(pair.certificate.split("\n")[1:-2])


def follow(client: Client, location: str) -> Any:
    return client.get(location.removeprefix("http://testserver"))


def test_our_metadata_shows_the_certificate_and_where_to_sign_out(
    client: Client, idp: SamlProvider, own: SamlProvider
) -> None:
    told = client.get("/accounts/saml/metadata/").content.decode()
    assert "".join(told.split()).count(body(own)) == 2
    assert ('use="signing"' in told, 'use="encryption"' in told) == (True, True)
    assert f'Location="{SIGN_OUT}"' in told
    assert 'AuthnRequestsSigned="true"' in told
    browser = Client()
    browser.force_login(person("root", superuser=True))
    page = browser.get("/settings/sign-on/").content.decode()
    assert "SHA-256 " in page
    assert SIGN_OUT in page


def test_our_metadata_never_ends_and_is_read_again_within_a_day(
    client: Client, idp: SamlProvider, own: SamlProvider
) -> None:
    told = client.get("/accounts/saml/metadata/").content.decode()
    assert ("validUntil" in told, 'cacheDuration="P1D"' in told) == (False, True)


def test_while_keys_are_exchanged_both_are_shown_both_open_and_the_first_signs(
    client: Client, idp: SamlProvider, own: SamlProvider, second: SamlProvider
) -> None:
    told = "".join(client.get("/accounts/saml/metadata/").content.decode().split())
    assert (told.count(body(own)), told.count(body(second))) == (2, 2)
    assert told.index(body(own)) < told.index(body(second))
    for pair in (own, second):
        one = Client()
        assert is_signed_by(one.post(START)["Location"], own.certificate)
        sign_in(one, idp.but(encrypts_for=pair.certificate))
        assert signed_in_as(one) == "ada"
    stranger = SamlProvider()
    assert sign_in(client, idp.but(encrypts_for=stranger.certificate)).status_code == 403
    provider = idp.but(encrypts_for=second.certificate)
    answer = provider.answer(provider.asked(client.post(START)["Location"]))
    assert [post(one, answer).status_code for one in (client, Client())] == [302, 403]
    browser = Client()
    browser.force_login(person("root", superuser=True))
    assert browser.get("/settings/sign-on/").content.decode().count("SHA-256 ") == 2


def test_a_certificate_of_another_key_is_told_and_never_shown(
    client: Client, idp: SamlProvider, own: SamlProvider, second: SamlProvider, settings: Any
) -> None:
    settings.SLIPWAY_SAML_SECOND_CERTIFICATE = settings.SLIPWAY_SAML_CERTIFICATE
    assert client.get("/accounts/saml/metadata/").status_code == 502
    browser = Client()
    browser.force_login(person("root", superuser=True))
    page = browser.get("/settings/sign-on/").content.decode()
    assert "SLIPWAY_SAML_SECOND_CERTIFICATE is the certificate of another key" in page


def test_without_a_key_nothing_of_this_is_offered(client: Client, idp: SamlProvider) -> None:
    told = client.get("/accounts/saml/metadata/").content.decode()
    assert ("KeyDescriptor" in told, "SingleLogoutService" in told) == (False, False)
    assert follow(client, idp.sign_out_request(SIGN_OUT)).status_code == 404


def test_a_key_that_cannot_be_read_is_told_and_signs_nobody_in(
    client: Client, idp: SamlProvider, own: SamlProvider, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Path(settings.SLIPWAY_SAML_KEY).unlink()
    assert client.post(START).status_code == 502
    assert client.get("/accounts/saml/metadata/").status_code == 502
    assert "own key for SAML cannot be read" in caplog.text


def test_requests_are_signed(client: Client, idp: SamlProvider, own: SamlProvider) -> None:
    sent = client.post(START)["Location"]
    assert is_signed_by(sent, own.certificate)
    assert not is_signed_by(sent, idp.certificate)


@pytest.mark.parametrize("signed", ["assertion", "response"])
def test_an_encrypted_assertion_is_read(
    client: Client, idp: SamlProvider, own: SamlProvider, signed: str
) -> None:
    sign_in(client, idp.but(encrypts_for=own.certificate), signed=signed)
    assert signed_in_as(client) == "ada"
    assert Identity.objects.get().subject == "7f3a"


def test_an_encrypted_assertion_that_nobody_signed_or_for_another_signs_nobody_in(
    client: Client, idp: SamlProvider, own: SamlProvider
) -> None:
    assert sign_in(client, idp.but(encrypts_for=own.certificate), signed="nothing").status_code == 403
    stranger = SamlProvider()
    assert sign_in(client, idp.but(encrypts_for=stranger.certificate)).status_code == 403
    assert not signed_in_as(client)


def test_where_encryption_is_required_what_is_open_is_refused(
    client: Client, idp: SamlProvider, own: SamlProvider, settings: Any
) -> None:
    settings.SLIPWAY_SAML_REQUIRE_ENCRYPTION = True
    assert sign_in(client, idp).status_code == 403
    sign_in(client, idp.but(encrypts_for=own.certificate))
    assert signed_in_as(client) == "ada"


def test_an_encrypted_answer_is_taken_once(client: Client, idp: SamlProvider, own: SamlProvider) -> None:
    provider = idp.but(encrypts_for=own.certificate)
    answer = provider.answer(provider.asked(client.post(START)["Location"]))
    assert post(client, answer).status_code == 302
    thief = Client()
    thief.post(START)
    assert post(thief, answer).status_code == 403


def test_signing_out_ends_the_providers_session_too(
    client: Client, idp: SamlProvider, own: SamlProvider
) -> None:
    sign_in(client, idp.but(session_index="s-1"))
    sent = client.post("/accounts/logout/")["Location"]
    assert sent.startswith(idp.sign_out_url)
    assert is_signed_by(sent, own.certificate)
    asked = message(sent, "SAMLRequest")
    assert "".join(asked.itertext()).split()[-2:] == ["7f3a", "s-1"]
    assert not signed_in_as(client)
    done = follow(client, idp.sign_out_answer(SIGN_OUT, asked.get("ID")))
    assert done["Location"] == "/accounts/signed-out/"
    assert "did not end" not in client.get(done["Location"]).content.decode()
    refused = follow(client, idp.sign_out_answer(SIGN_OUT, asked.get("ID"), status="Responder"))
    assert "did not end" in client.get(refused["Location"]).content.decode()


def test_a_provider_without_single_logout_keeps_its_session(
    client: Client, idp: SamlProvider, own: SamlProvider, settings: Any
) -> None:
    metadata = Path(settings.SLIPWAY_SAML_METADATA)
    metadata.write_text(idp.metadata.replace("SingleLogoutService", "ArtifactResolutionService"))
    sign_in(client, idp)
    assert client.post("/accounts/logout/")["Location"] == "/"
    assert not signed_in_as(client)


def test_the_provider_ends_the_session_that_it_names(idp: SamlProvider, own: SamlProvider) -> None:
    laptop, phone = Client(), Client()
    sign_in(laptop, idp.but(session_index="s-1"))
    sign_in(phone, idp.but(session_index="s-2"))
    answer = follow(Client(), idp.sign_out_request(SIGN_OUT, session_indexes=("s-1",)))
    assert answer["Location"].startswith(idp.sign_out_url)
    assert is_signed_by(answer["Location"], own.certificate)
    status = message(answer["Location"], "SAMLResponse").find(".//{*}StatusCode")
    assert status is not None
    assert status.get("Value", "").endswith("Success")
    assert (signed_in_as(laptop), signed_in_as(phone)) == ("", "ada")
    follow(Client(), idp.sign_out_request(SIGN_OUT))
    assert signed_in_as(phone) == ""
    assert not ProviderSession.objects.exists()


def test_a_wish_to_sign_out_that_the_provider_did_not_sign_just_now_ends_nothing(
    client: Client, idp: SamlProvider, own: SamlProvider
) -> None:
    sign_in(client, idp.but(session_index="s-1"))
    stranger = SamlProvider()
    once = idp.but(name_id="somebody").sign_out_request(SIGN_OUT)
    assert follow(Client(), once).status_code == 302
    for hostile in (
        idp.sign_out_request(SIGN_OUT, sign=False),
        stranger.sign_out_request(SIGN_OUT),
        idp.sign_out_request(SIGN_OUT, at=-1_000),
        idp.sign_out_request("http://elsewhere/").replace("http://elsewhere/", SIGN_OUT),
        idp.but(entity_id="https://elsewhere.example.org/").sign_out_request(SIGN_OUT),
        idp.sign_out_request(SIGN_OUT).replace("SAMLRequest=", "SAMLRequest=x&SAMLRequest="),
        once,
        f"{SIGN_OUT}?SAMLRequest=%25%25",
    ):
        assert follow(Client(), hostile).status_code == 403, hostile
    assert follow(Client(), SIGN_OUT).status_code == 404
    assert signed_in_as(client) == "ada"
    assert Session.objects.count() >= 1
