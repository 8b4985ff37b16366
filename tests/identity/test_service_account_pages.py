"""Service accounts on their pages: an admin of a team makes one and says which CI jobs it accepts."""

import pytest

from accounts.models import User
from identity.federation import GITHUB
from identity.models import FederatedCredential
from tests.cast import client_of, person

pytestmark = pytest.mark.django_db
PAGE = "/settings/service-accounts/"


def test_an_admin_makes_an_account_and_a_credential_and_takes_it_away_again():
    browser = client_of(person("adam", vision="admin"))
    made = browser.post(f"{PAGE}+new/", {"username": "ci", "team": "vision", "role": "developer"})
    assert made["Location"] == f"{PAGE}ci/"
    form = {
        "name": "main",
        "issuer": GITHUB,
        "subject": "repo:acme*",
        "claims": "environment=production",
        "audience": "https://slipway.example.org",
        "scopes": ["read"],
        "minutes": 30,
    }
    refused = browser.post(f"{PAGE}ci/", form)
    assert refused.status_code == 422
    assert "tokens of strangers" in refused.content.decode()
    assert browser.post(f"{PAGE}ci/", form | {"subject": "repo:acme/api:*"}).status_code == 302
    credential = FederatedCredential.objects.get()
    assert credential.claims == {"environment": "production"}
    assert "repo:acme/api:*" in browser.get(f"{PAGE}ci/").content.decode()
    assert "ci" in browser.get(PAGE).content.decode()
    developer = client_of(person("dev", vision="developer"))
    assert "Add credential" not in developer.get(f"{PAGE}ci/").content.decode()
    gone = f"{PAGE}ci/credentials/{credential.pk}/delete/"
    developer.post(gone)
    assert FederatedCredential.objects.exists()
    assert client_of(person("eve", other="admin")).get(f"{PAGE}ci/").status_code == 404
    assert browser.post(gone).status_code == 302
    assert not FederatedCredential.objects.exists()
    assert User.objects.get(username="ci").kind == "service"


def test_who_manages_no_team_makes_none():
    browser = client_of(person("dev", vision="developer"))
    assert browser.get(f"{PAGE}+new/").status_code == 403
    assert browser.post(f"{PAGE}+new/", {"username": "ci", "team": "vision"}).status_code == 403
    assert not User.objects.filter(username="ci").exists()
