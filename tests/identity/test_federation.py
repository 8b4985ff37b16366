"""Service accounts by tokens of CI systems: what is accepted, what a caller learns, who may set it up."""

import time
from typing import Any

import pytest

from accounts.models import ApiToken, User
from accounts.services.people import create_service_account
from accounts.services.teams import set_role
from common.errors import Invalid
from common.models import AuditRecord
from identity import openid
from identity.federation import GITHUB, GITLAB, TokenRequirements, mismatch, names_an_owner
from identity.services.federation import create_credential
from tests.cast import SYSTEM, Api, api, person, team
from tests.identity.identity_provider import IdentityProvider

pytestmark = pytest.mark.any_database

AUDIENCE = "https://slipway.example.org"
SUBJECT = "repo:acme/api:ref:refs/heads/main"


@pytest.mark.parametrize(
    ("claims", "fits"),
    [
        ({"sub": SUBJECT, "aud": AUDIENCE, "environment": "production"}, True),
        ({"sub": SUBJECT, "aud": ["x", AUDIENCE], "environment": "production"}, True),
        ({"sub": SUBJECT, "aud": "x", "environment": "production"}, False),
        ({"sub": SUBJECT, "environment": "production"}, False),
        ({"sub": SUBJECT, "aud": AUDIENCE}, False),
        ({"sub": SUBJECT, "aud": AUDIENCE, "environment": ["production"]}, False),
        ({"sub": "repo:acme/api2:ref:refs/heads/main", "aud": AUDIENCE, "environment": "production"}, False),
        ({"sub": f"x{SUBJECT}", "aud": AUDIENCE, "environment": "production"}, False),
    ],
)
def test_audience_subject_and_every_claim_must_fit(claims, fits):
    wanted = TokenRequirements(AUDIENCE, "repo:acme/api:*", {"environment": "production"})
    assert (mismatch(wanted, claims) == "") is fits


@pytest.mark.parametrize(
    ("issuer", "subject", "claims", "fine"),
    [
        (GITHUB, "repo:acme/*", {}, True),
        (GITHUB, "repo:acme*", {}, False),
        (GITHUB, "repo:*", {}, False),
        (GITHUB, "*", {}, False),
        (GITHUB, "", {}, False),
        (GITHUB, "project_path:acme/x", {}, False),
        (GITHUB, "*:ref:refs/heads/main", {}, False),
        (GITHUB, "", {"repository_owner": "acme"}, True),
        (GITHUB, "", {"repository_owner": "acme*"}, False),
        (GITHUB, "", {"repository": "acme/*"}, True),
        (GITHUB, "", {"repository": "acme*"}, False),
        (GITHUB, "", {"environment": "production"}, False),
        (GITLAB, "project_path:acme/api:*", {}, True),
        (GITLAB, "repo:acme/api", {}, False),
        ("https://gitlab.acme.org", "", {"ref": "main"}, True),
        ("https://gitlab.acme.org", "", {}, False),
    ],
)
def test_where_an_issuer_serves_everybody_an_owner_must_be_named(issuer, subject, claims, fine):
    assert names_an_owner(issuer, TokenRequirements("a", subject, claims)) is fine


@pytest.fixture
def issuer(settings):
    idp = IdentityProvider()
    openid.forget()
    settings.SLIPWAY_CI_ISSUERS = (idp.url,)
    settings.SLIPWAY_PUBLIC_URL = AUDIENCE
    yield idp
    idp.close()


@pytest.fixture
def robot(issuer, db):
    account = create_service_account(
        actor=SYSTEM, username="vision-ci", team=team("vision"), role="developer"
    )
    create_credential(
        actor=SYSTEM,
        account=account,
        name="main",
        issuer=issuer.url,
        subject="repo:acme/api:*",
        scopes=["read", "people.admin"],
        minutes=10,
    )
    return account


def job(issuer, **claims: Any) -> str:
    return issuer.id_token(**{"aud": AUDIENCE, "sub": SUBJECT, "repository": "acme/api", **claims})


def exchange(text: str, **more: Any) -> Any:
    return Api().post("tokens/exchange/", {"token": text, **more})


def test_a_job_s_token_is_exchanged_for_one_that_lives_minutes_and_has_the_account_s_rights(issuer, robot):
    answer = exchange(job(issuer, run_id="42"))
    assert answer.status_code == 201, answer.content
    assert answer["Cache-Control"] == "no-store"
    told = answer.json()
    assert told["account"] == "vision-ci"
    rights = Api(told["token"]).get("me/").json()
    assert rights["teams"] == [{"team": "vision", "rights": ["read"]}]
    assert rights["everywhere"] == []
    token = ApiToken.objects.get(owner=robot)
    assert 9 * 60 < (token.expires_at - token.created_at).total_seconds() <= 600
    noted = AuditRecord.objects.get(action="token.exchange")
    assert (noted.detail["sub"], noted.detail["run_id"]) == (SUBJECT, "42")
    assert exchange(job(issuer)).status_code == 201


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda idp: job(idp, aud="https://elsewhere"), id="audience"),
        pytest.param(lambda idp: job(idp, sub="repo:evil/api:ref:refs/heads/main"), id="subject"),
        pytest.param(lambda idp: job(idp, iss="https://evil.example"), id="issuer"),
        pytest.param(lambda idp: job(idp, exp=int(time.time()) - 120), id="expired"),
        pytest.param(lambda idp: job(idp, nbf=int(time.time()) + 600), id="not yet"),
        pytest.param(lambda idp: job(idp, iat=int(time.time()) + 600), id="of the future"),
        pytest.param(lambda idp: idp.sign({"iss": idp.url, "aud": AUDIENCE, "sub": SUBJECT}), id="endless"),
        pytest.param(lambda idp: job(idp)[:-4] + "AAAA", id="signature"),
        pytest.param(lambda idp: "not a token", id="text"),
    ],
)
def test_a_refused_caller_learns_nothing_and_the_record_says_why(issuer, robot, forged):
    answer = exchange(forged(issuer))
    assert answer.status_code == 403
    assert (
        answer.json()["detail"] == "This token is not accepted. The audit log of the installation says why."
    )
    noted = AuditRecord.objects.get(action="token.exchange_refused")
    assert len(noted.reason) > 10
    assert not ApiToken.objects.filter(owner=robot).exists()


def test_an_inactive_account_accepts_nothing(issuer, robot):
    User.objects.filter(pk=robot.pk).update(is_active=False)
    assert exchange(job(issuer)).status_code == 403


def test_a_token_that_fits_two_accounts_needs_the_name_of_one(issuer, robot):
    other = create_service_account(actor=SYSTEM, username="speech-ci", team=team("speech"), role="viewer")
    create_credential(
        actor=SYSTEM, account=other, name="x", issuer=issuer.url, subject="repo:acme/*", scopes=["read"]
    )
    assert exchange(job(issuer)).status_code == 403
    assert exchange(job(issuer), account="speech-ci").json()["account"] == "speech-ci"


def test_single_use_takes_a_token_once(issuer, robot):
    from identity.models import FederatedCredential

    FederatedCredential.objects.update(is_single_use=True)
    text = job(issuer, jti="one")
    assert exchange(text).status_code == 201
    assert exchange(text).status_code == 403
    assert exchange(job(issuer)).status_code == 403


def test_a_service_account_is_nobody_who_signs_in(issuer, robot):
    from django.test import Client

    User.objects.get(pk=robot.pk)
    robot.set_password("a long enough one")
    robot.save()
    browser = Client()
    browser.post("/accounts/login/", {"login": "vision-ci", "password": "a long enough one"})
    assert browser.get("/api/v1/me/").status_code == 401


def test_what_would_let_strangers_in_is_refused(issuer, robot, settings):
    settings.SLIPWAY_CI_ISSUERS = (issuer.url, GITHUB)
    given = {"actor": SYSTEM, "account": robot, "name": "x", "scopes": ["read"]}
    for wrong, field in (
        ({"issuer": "https://evil.example", "subject": "x"}, "issuer"),
        ({"issuer": GITHUB, "subject": "repo:*"}, "subject"),
        ({"issuer": issuer.url}, "subject"),
        ({"issuer": issuer.url, "subject": "x", "scopes": ["root"]}, "scopes"),
        ({"issuer": issuer.url, "subject": "x", "minutes": 0}, "minutes"),
        ({"issuer": issuer.url, "subject": "x", "claims": {"ref": 7}}, "claims"),
        ({"issuer": issuer.url, "subject": "x", "audience": " "}, "audience"),
    ):
        with pytest.raises(Invalid) as refusal:
            create_credential(**{**given, **wrong})
        assert field in refusal.value.fields


def test_admins_of_a_team_manage_its_accounts_but_not_one_that_works_elsewhere_too(issuer, robot):
    admin = api(person("adam", vision="admin"))
    shown = admin.get("federated-credentials/").json()["results"]
    assert [one["account"] for one in shown] == ["vision-ci"]
    at = f"federated-credentials/{shown[0]['id']}/"
    assert admin.call("PATCH", at, {"subject": "repo:acme/other:*"}).status_code == 200
    set_role(actor=SYSTEM, user=robot, team=team("speech"), role="admin")
    assert admin.call("PATCH", at, {"subject": "repo:adam/own:*"}).status_code == 403
    body = {"account": "vision-ci", "name": "y", "issuer": issuer.url, "subject": "x", "scopes": ["read"]}
    assert admin.post("federated-credentials/", body).status_code == 403
    assert api(person("dev", vision="developer")).call("DELETE", at).status_code == 403
    assert api(person("eve", other="admin")).get(at).status_code == 404


def test_refusals_without_end_are_a_few_entries_with_counts(issuer, robot):
    from datetime import timedelta

    from django.utils import timezone

    from identity.models import RefusedExchange
    from identity.services.refusals import MAX_REASONS, note_refusal, record_refusals

    refusals = AuditRecord.objects.filter(action="token.exchange_refused").order_by("seq")
    for _ in range(5):
        assert exchange(job(issuer, aud="https://elsewhere")).status_code == 403
    assert refusals.count() == 1, "the first is seen at once"
    record_refusals()
    assert refusals.count() == 1
    hour = timezone.now() + timedelta(hours=1)
    record_refusals(hour)
    assert refusals.count() == 2
    assert refusals[1].detail["count"] == 4
    record_refusals(hour + timedelta(hours=1))
    assert refusals.count() == 2
    assert not RefusedExchange.objects.exists()
    for number in range(100):
        note_refusal(address="10.0.0.1", account="", reason=f"Its issuer 'https://{number}' is not known.")
    assert refusals.count() == 2 + MAX_REASONS + 1
    assert refusals.filter(address="10.0.0.1").latest("seq").reason.startswith("Further reasons")


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("subject", {"subject": "repo:acme/api: main"}),
        ("subject", {"subject": "repo:acme/api:\u200bmain"}),
        ("claims", {"claims": {"repository": "acme/\u200bapi"}}),
    ],
)
def test_a_pattern_that_no_token_can_fit_is_refused_at_once(issuer, robot, field, given):
    with pytest.raises(Invalid) as refused:
        create_credential(
            actor=SYSTEM, account=robot, name="x", issuer=issuer.url, scopes=["read"], minutes=5, **given
        )
    assert list(refused.value.fields) == [field]
