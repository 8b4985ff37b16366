"""SAML 2.0: who comes that way has an account and the roles of their groups; an answer that is not the
provider's, for us, of now, to what this browser has asked, signs nobody in."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from accounts.models import Membership, Team, User
from common.actor import Actor
from identity import saml
from identity.models import Identity
from identity.services.rules import create_rule
from tests.identity.saml_provider import TRANSIENT, SamlProvider

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
START, ACS = "/accounts/saml/login/", "/accounts/saml/acs/"


@pytest.fixture
def idp(settings: Any, tmp_path: Path) -> Iterator[SamlProvider]:
    provider = SamlProvider(attributes={"username": ["ada"], "groups": ["ml-eu", "all"]})
    metadata = tmp_path / "metadata.xml"
    metadata.write_text(provider.metadata)
    settings.SLIPWAY_PUBLIC_URL = "http://testserver"
    settings.SLIPWAY_SAML_METADATA = str(metadata)
    settings.SOCIALACCOUNT_PROVIDERS = {
        "saml": {"APPS": [{"provider_id": "saml", "name": "Example SAML", "client_id": "saml"}]}
    }
    saml.forget()
    yield provider
    saml.forget()


def ask(client: Client, idp: SamlProvider) -> str:
    sent = client.post(START)
    assert sent.status_code == 302, sent.content
    return idp.asked(sent["Location"])


def post(client: Client, answer: str) -> Any:
    """The browser's post from the provider's site, which carries no session, and the redirect after it."""
    found = Client().post(ACS, {"SAMLResponse": answer})
    if found.status_code != 302 or "finish" not in found["Location"]:
        return found
    client.cookies["saml-answer"] = found.cookies["saml-answer"].value
    return client.get(found["Location"])


def sign_in(client: Client, idp: SamlProvider, **how: Any) -> Any:
    return post(client, idp.answer(ask(client, idp), **how))


def signed_in_as(client: Client) -> str:
    answer = client.get("/api/v1/me/")
    return str(answer.json()["username"]) if answer.status_code == 200 else ""


def test_without_settings_there_is_no_button_and_no_address(client: Client) -> None:
    assert client.post(START).status_code == 404
    assert client.post(ACS).status_code == 404
    assert client.get("/accounts/saml/metadata/").status_code == 404


def test_the_provider_is_told_of_us_by_our_metadata(client: Client, idp: SamlProvider) -> None:
    told = client.get("/accounts/saml/metadata/").content.decode()
    assert 'entityID="http://testserver/accounts/saml/metadata/"' in told
    assert 'Location="http://testserver/accounts/saml/acs/"' in told
    assert "Sign in with Example SAML" in client.get("/accounts/login/").content.decode()


@pytest.mark.parametrize("signed", ["assertion", "response"])
def test_a_person_comes_in_and_has_the_roles_of_their_groups(
    client: Client, idp: SamlProvider, signed: str
) -> None:
    team = Team.objects.create(name="vision")
    create_rule(actor=Actor.system("test"), pattern="ml-*", team=team, role="developer")
    answer = sign_in(client, idp, signed=signed)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert signed_in_as(client) == "ada"
    assert Membership.objects.get().role == "developer"
    assert Identity.objects.get().subject == "7f3a"


def test_they_come_back_to_the_same_account_under_another_name(client: Client, idp: SamlProvider) -> None:
    sign_in(client, idp)
    client.logout()
    sign_in(client, idp.but(attributes={"username": ["ada.lovelace"]}))
    assert signed_in_as(client) == "ada"
    assert User.objects.count() == 1


def test_entra_knows_people_by_their_object_id_and_leaves_out_too_many_groups(
    client: Client, idp: SamlProvider
) -> None:
    oid = "http://schemas.microsoft.com/identity/claims/objectidentifier"
    sign_in(client, idp.but(attributes={"groups": ["ml-eu"], oid: ["8d2c"]}))
    client.logout()
    link = "http://schemas.microsoft.com/claims/groups.link"
    sign_in(
        client, idp.but(name_id="renamed@example.org", attributes={oid: ["8d2c"], link: ["https://graph"]})
    )
    known = Identity.objects.get()
    assert (known.subject, known.groups) == ("8d2c", ["ml-eu"])


def test_a_session_ends_when_the_providers_does(client: Client, idp: SamlProvider) -> None:
    sign_in(client, idp.but(session_seconds=600))
    assert 0 < client.session.get_expiry_age() <= 600


@pytest.mark.parametrize(
    ("wrong", "signed", "why"),
    [
        ({}, "nothing", "No Signature found"),
        ({"audience": "https://elsewhere.example.org/"}, "assertion", "is not a valid audience"),
        ({"audience": None}, "assertion", "for another audience, or for none"),
        ({"recipient": "https://elsewhere.example.org/acs/"}, "assertion", "was received at"),
        ({"entity_id": "https://elsewhere.example.org/idp"}, "assertion", "Invalid issuer"),
        ({"lives_seconds": -1_000}, "assertion", "expired"),
        ({"name_id_format": TRANSIENT}, "assertion", "names nobody for good"),
    ],
)
def test_an_answer_with_a_fault_signs_nobody_in_and_the_log_says_why(
    client: Client,
    idp: SamlProvider,
    wrong: dict[str, Any],
    signed: str,
    why: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = sign_in(client, idp.but(**wrong), signed=signed)
    assert answer.status_code == 403
    assert b"Single sign-on failed" in answer.content
    assert why in caplog.text
    assert not signed_in_as(client)
    assert not User.objects.exists()


def test_an_answer_signed_with_another_key_signs_nobody_in(client: Client, idp: SamlProvider) -> None:
    request_id = ask(client, idp)
    stranger = SamlProvider(attributes={"username": ["ada"]})
    assert post(client, stranger.answer(request_id)).status_code == 403
    assert not User.objects.exists()
    assert post(client, idp.answer(request_id)).status_code == 302


def test_what_was_signed_cannot_be_changed_nor_wrapped_into_something_else(
    client: Client, idp: SamlProvider
) -> None:
    true = base64.b64decode(idp.answer(ask(client, idp))).decode()
    changed = true.replace("7f3a", "root")
    signed = re.search(r"<saml:Assertion.*</saml:Assertion>", true, re.DOTALL)
    assert signed
    forged = re.sub(r"<ds:Signature.*</ds:Signature>", "", signed[0], flags=re.DOTALL).replace("7f3a", "root")
    forged = re.sub(r' ID="_\w+"', ' ID="_forged"', forged)
    wrapped = true.replace(signed[0], forged + signed[0])
    comment = true.replace("7f3a", "7f<!-- -->3a")
    for hostile in (changed, wrapped, comment):
        post(client, base64.b64encode(hostile.encode()).decode())
        assert signed_in_as(client) in ("", "ada")
        assert not User.objects.filter(username="root").exists()
        assert not Identity.objects.exclude(subject="7f3a").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%%%",
        base64.b64encode(b"no xml").decode(),
        base64.b64encode(
            b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><samlp:Response '
            b'xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="a" Version="2.0">&x;</samlp:Response>'
        ).decode(),
        "A" * (saml.MAX_ANSWER + 1),
    ],
)
def test_what_is_no_answer_is_a_page_that_says_so(client: Client, idp: SamlProvider, text: str) -> None:
    answer = client.post(ACS, {"SAMLResponse": text})
    assert answer.status_code == 403
    assert b"Single sign-on failed" in answer.content


def test_an_answer_is_taken_once(client: Client, idp: SamlProvider) -> None:
    answer = idp.answer(ask(client, idp))
    assert post(client, answer).status_code == 302
    thief = Client()
    ask(thief, idp)
    assert post(thief, answer).status_code == 403
    assert not signed_in_as(thief)


def test_an_answer_to_another_browsers_request_signs_nobody_in(client: Client, idp: SamlProvider) -> None:
    victim = Client()
    ask(victim, idp)
    assert post(victim, idp.answer(ask(client, idp))).status_code == 403
    assert not signed_in_as(victim)


def test_an_answer_that_nobody_asked_for_leads_to_the_sign_in_page(client: Client, idp: SamlProvider) -> None:
    answer = post(client, idp.answer(None))
    assert (answer.status_code, answer["Location"]) == (302, "/accounts/login/")
    assert not signed_in_as(client)


def test_metadata_that_is_none_is_told_to_who_signs_in_and_in_the_log(
    client: Client, idp: SamlProvider, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    Path(settings.SLIPWAY_SAML_METADATA).write_text("<html>not found</html>")
    assert client.post(START).status_code == 502
    assert "SLIPWAY_SAML_METADATA" in caplog.text
