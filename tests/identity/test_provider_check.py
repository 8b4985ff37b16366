"""The provider is asked whether it still accepts people: who is refused is out; when it fails, all stay."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from common.models import AuditRecord
from common.sealed import unseal
from identity.errors import ProviderUnavailable
from identity.models import Identity, ProviderCheck
from identity.reconcilers import ProviderCheckReconciler, check
from identity.services.rules import create_rule
from identity.services.sign_on import PURPOSE
from tests.cast import SYSTEM, Api, client_of, person, team, token_of
from tests.identity.conftest import sign_in
from tests.identity.test_group_rules import membership
from tests.identity.test_sign_out import is_signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def identity_of(username: str) -> Identity:
    return Identity.objects.select_related("user").get(user__username=username)


def test_the_refresh_token_is_kept_sealed_and_exchanged_at_each_check(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    first = identity_of("ada").sealed_refresh_token
    assert set(provider.refresh_tokens) == {unseal(first, purpose=PURPOSE)}
    check(identity_of("ada"))
    second = identity_of("ada").sealed_refresh_token
    assert second != first
    assert set(provider.refresh_tokens) == {unseal(second, purpose=PURPOSE)}
    assert is_signed_in(client)


def test_who_is_refused_has_no_session_and_no_token_until_they_come_back(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    ada = User.objects.get(username="ada")
    token = Api(token_of(ada))
    assert token.get("me/").status_code == 200
    provider.refresh_tokens.clear()
    check(identity_of("ada"))
    assert not is_signed_in(client)
    refused = token.get("me/")
    assert refused.status_code == 401
    assert "The identity provider no longer accepts the owner of this token" in refused.json()["detail"]
    said = AuditRecord.objects.get(action="user.suspend")
    assert "The grant was revoked." in said.reason
    root = client_of(person("root", superuser=True))
    assert "Suspended by the identity provider" in root.get("/settings/people/ada/").content.decode()
    assert "Suspended" in root.get("/settings/people/").content.decode()
    assert root.get("/api/v1/people/ada/").json()["suspended_at"]
    sign_in(Client(), provider, sub="7", preferred_username="ada")
    assert token.get("me/").status_code == 200
    assert not is_signed_in(client)


def test_neither_does_a_password_let_them_in(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    ada = User.objects.get(username="ada")
    ada.set_password("a long enough one")
    ada.save()
    provider.refresh_tokens.clear()
    check(identity_of("ada"))
    other = Client()
    other.post("/accounts/login/", {"login": "ada", "password": "a long enough one"})
    assert not is_signed_in(other)


@pytest.mark.parametrize(
    "answer",
    [(503, {}), (500, {"error": "server_error"}), (401, {"error": "invalid_client"}), (400, {"error": "x"})],
)
def test_a_provider_that_fails_ends_nothing(provider, client, answer):
    sign_in(client, provider, sub="7", preferred_username="ada")
    provider.refresh_answer = answer
    with pytest.raises(ProviderUnavailable):
        check(identity_of("ada"))
    assert is_signed_in(client)
    provider.close()
    with pytest.raises(ProviderUnavailable):
        check(identity_of("ada"))
    assert is_signed_in(client)


def test_the_last_administrator_is_not_locked_out(provider, client):
    create_rule(actor=SYSTEM, pattern="admins")
    sign_in(client, provider, sub="7", preferred_username="ada", groups=["admins"])
    provider.refresh_tokens.clear()
    check(identity_of("ada"))
    assert is_signed_in(client)
    assert AuditRecord.objects.filter(action="user.suspend_refused").exists()


def test_groups_of_a_check_count_too_and_their_absence_says_nothing(provider, client):
    create_rule(actor=SYSTEM, pattern="v", team=team("vision"), role="viewer")
    sign_in(client, provider, sub="7", preferred_username="ada", groups=[])
    token = unseal(identity_of("ada").sealed_refresh_token, purpose=PURPOSE)
    provider.refresh_tokens[token] = {"sub": "7", "groups": ["v"]}
    check(identity_of("ada"))
    assert membership("ada") == {"vision": "viewer"}
    token = unseal(identity_of("ada").sealed_refresh_token, purpose=PURPOSE)
    provider.refresh_tokens[token] = {"sub": "7"}
    check(identity_of("ada"))
    assert membership("ada") == {"vision": "viewer"}
    token = unseal(identity_of("ada").sealed_refresh_token, purpose=PURPOSE)
    provider.refresh_tokens[token] = {"sub": "8", "groups": []}
    check(identity_of("ada"))
    assert membership("ada") == {"vision": "viewer"}


def test_a_sign_in_during_the_check_outlives_what_the_old_token_is_answered(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    before = identity_of("ada")
    client.logout()
    sign_in(client, provider, sub="7", preferred_username="ada")
    provider.refresh_tokens.pop(unseal(before.sealed_refresh_token, purpose=PURPOSE))
    check(before)
    assert is_signed_in(client)


def test_the_row_asks_only_for_those_who_are_due_in_the_lane_of_the_provider(provider, client):
    sign_in(client, provider, sub="7", preferred_username="ada")
    row, reconciler = ProviderCheck.objects.get(), ProviderCheckReconciler()
    assert reconciler.lane_of(row) == f"identity:{provider.url.removeprefix('http://')}"
    before = identity_of("ada").sealed_refresh_token
    assert reconciler.observe(row, None) is False
    assert identity_of("ada").sealed_refresh_token == before
    Identity.objects.update(checked_at=timezone.now() - timedelta(hours=1))
    assert reconciler.observe(row, None) is False
    assert identity_of("ada").sealed_refresh_token != before


def test_two_answers_about_two_people_are_no_sign_in(provider, client):
    person("root", superuser=True)
    provider.userinfo = {"sub": "8", "preferred_username": "eve"}
    answer = sign_in(client, provider, sub="7", preferred_username="ada")
    assert b"Single sign-on failed" in answer.content
    assert not is_signed_in(client)


def test_the_answer_to_another_question_is_no_sign_in(provider, client):
    provider.nonce = "of another browser"
    answer = sign_in(client, provider, sub="7", preferred_username="ada")
    assert answer.status_code == 403
    assert not is_signed_in(client)


def test_an_id_token_for_another_audience_is_no_sign_in(provider, client):
    answer = sign_in(client, provider, sub="7", preferred_username="ada", aud="another")
    assert b"Single sign-on failed" in answer.content
    assert not is_signed_in(client)
