"""After a change of the secret key: what was sealed is sealed anew, and what nothing opens is named."""

import pytest
from django.apps import apps

from accounts.models import WebhookEndpoint
from accounts.services.webhooks import PURPOSE
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.models import Cluster
from common import resealing
from common.health import Unhealthy
from common.sealed import key_ids, seal, unseal
from controlplane.health import _Secrets

pytestmark = pytest.mark.django_db
NEXT = "the next key of the house, as long as it should be"
OTHER = "a key that nobody has any more, as long as it was"


@pytest.fixture
def stored(settings) -> WebhookEndpoint:
    """Secrets under the replaced key, by itself and among others, and one under a lost key."""
    lost = settings.SECRET_KEY
    settings.SECRET_KEY = OTHER
    WebhookEndpoint.objects.create(url="https://lost.example", sealed_secret=seal("gone", purpose=PURPOSE))
    settings.SECRET_KEY = lost
    endpoint = WebhookEndpoint.objects.create(
        url="https://x.example", sealed_secret=seal("whsec", purpose=PURPOSE)
    )
    Cluster.objects.create(name="far", sealed_secrets={"token": seal("t0ken", purpose=SECRETS_PURPOSE)})
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEXT, [lost]
    return endpoint


def reseal() -> tuple[int, list[str]]:
    """Return how many rows were sealed anew, and which secrets are dead."""
    done = [resealing.reseal(column) for column in resealing.columns()]
    return sum(one.rows for one in done), [str(dead) for one in done for dead in one.dead]


def test_every_sealed_column_is_declared():
    declared = {(one.model, one.column) for one in resealing.columns()}
    there = {
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.name.startswith("sealed_")
    }
    assert there
    assert there == declared


def test_what_a_former_key_has_sealed_opens_without_it_and_once_is_enough(settings, stored: WebhookEndpoint):
    rows, dead = reseal()
    assert rows == 2
    assert [("lost.example" in one) for one in dead] == [True]
    settings.SECRET_KEY_FALLBACKS = []
    stored.refresh_from_db()
    assert unseal(stored.sealed_secret, purpose=PURPOSE) == "whsec"
    token = Cluster.objects.get(name="far").sealed_secrets["token"]
    assert unseal(token, purpose=SECRETS_PURPOSE) == "t0ken"
    assert reseal() == (0, dead)


def test_an_interrupted_run_goes_on_where_it_was(stored: WebhookEndpoint):
    (webhooks,) = (
        one for one in resealing.columns() if (one.model, one.column) == (WebhookEndpoint, "sealed_secret")
    )
    assert resealing.reseal(webhooks).rows == 1
    assert reseal()[0] == 1


def test_what_is_stored_meanwhile_stays(stored: WebhookEndpoint, monkeypatch):
    column = resealing.SealedColumn(WebhookEndpoint, "sealed_secret", PURPOSE)

    def another(text: str, *, purpose: str) -> str:
        WebhookEndpoint.objects.filter(pk=stored.pk).update(sealed_secret=seal("newer", purpose=PURPOSE))
        return unseal(text, purpose=purpose)

    monkeypatch.setattr(resealing, "unseal", another)
    assert resealing.reseal(column).rows == 0
    stored.refresh_from_db()
    assert unseal(stored.sealed_secret, purpose=PURPOSE) == "newer"


def test_dead_secrets_are_named_where_people_look(stored: WebhookEndpoint):
    with pytest.raises(
        Unhealthy,
        match=r"1 stored secret is sealed with a key that is not here: accounts.webhookendpoint .1.",
    ):
        _Secrets()()
    WebhookEndpoint.objects.filter(url="https://lost.example").delete()
    assert "every stored secret" in str(_Secrets()())
    assert len(key_ids()) == 2
