"""Keys of clients as teams make, limit and revoke them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from clusters.models import Deployment
from common.fence import Fence
from common.models import AuditRecord
from gateway.backends.fake import FakeGateway
from gateway.client_access import key_hash
from gateway.models import ClientKey, Gateway
from gateway.routes import RouteSpec, RouteTarget
from gateway.services.client_keys import sync_access
from tests.cast import SYSTEM, Api, api, client_of, person, team
from tests.clusters.world import version_of
from tests.gateway.cast import cluster, gateway_of, set_route

pytestmark = pytest.mark.django_db


@pytest.fixture
def developer(gateway: FakeGateway) -> Api:
    for name, owner in (("chat", "speech"), ("draw", "vision")):
        Deployment.objects.create(
            name=f"{name}-1",
            cluster=cluster(),
            team=team(owner),
            service=name,
            version=version_of(team(owner), f"{name}:v1"),
            version_label=f"{name}:v1",
            engine="app",
            replicas=1,
            slots=1,
        )
        spec = RouteSpec(name, RouteTarget(f"{name}-1", f"{name}:v1"), None, 0)
        set_route(spec, fence=Fence(1, 1), actor=SYSTEM)
    return api(person("dina", speech="developer"))


def test_a_key_opens_the_services_of_its_team_and_is_shown_once(developer: Api, gateway: FakeGateway) -> None:
    limits = {"requests_per_minute": 60, "tokens_per_minute": 1000}
    answer = developer.post("client-keys/", {"name": "shop", "team": "speech", **limits}).json()

    sync_access(gateway_of())

    (allowed,) = gateway.access.keys
    assert allowed.services == {"chat"}
    assert allowed.hash == key_hash(answer["key"])
    assert (allowed.requests_per_minute, allowed.tokens_per_minute) == (60, 1000)
    assert answer["key"].startswith(answer["prefix"])
    assert "key" not in developer.get(f"client-keys/{answer['id']}/").json()


def test_a_revoked_key_and_one_that_has_ended_leave_the_gateway(developer: Api, gateway: FakeGateway) -> None:
    given = {"name": "shop", "team": "speech", "services": ["chat"]}
    revoked = developer.post("client-keys/", given).json()["id"]
    ended = developer.post("client-keys/", {**given, "name": "trial"}).json()["id"]
    ClientKey.objects.filter(pk=ended).update(expires_at=timezone.now() - timedelta(seconds=1))
    Gateway.objects.update(next_at=None)

    assert developer.delete(f"client-keys/{revoked}/").status_code == 204

    # Its gateway is due at once: nobody waits for the next look.
    assert Gateway.objects.filter(next_at__lte=timezone.now()).exists()
    sync_access(gateway_of())
    assert not gateway.access.keys
    states = {row["name"]: row["state"] for row in developer.get("client-keys/").json()["results"]}
    assert states == {"shop": "revoked", "trial": "expired"}
    assert AuditRecord.objects.filter(action="clientkey.revoke").exists()


def test_a_service_demands_a_key_when_its_team_says_so(developer: Api, gateway: FakeGateway) -> None:
    assert developer.get("services/chat/client-access/").json()["requires_key"] is False

    developer.put("services/chat/client-access/", {"requires_key": True})
    sync_access(gateway_of())

    assert gateway.access.demanded == {"chat"}
    assert developer.put("services/draw/client-access/", {"requires_key": True}).status_code == 404


def test_a_gateway_of_kubernetes_knows_no_keys_and_says_so(developer: Api) -> None:
    Gateway.objects.update(kind="gateway_api")

    refused = developer.put("services/chat/client-access/", {"requires_key": True})

    assert refused.status_code == 409
    assert "Gateway of Kubernetes" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("given", "field"),
    [({"services": ["draw"]}, "services"), ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at")],
)
def test_a_key_for_what_its_team_has_not_or_for_the_past_is_refused(
    developer: Api, given: dict[str, object], field: str
) -> None:
    refused = developer.post("client-keys/", {"name": "shop", "team": "speech", **given})

    assert refused.status_code == 400
    assert field in refused.json()["errors"]


def test_the_page_makes_a_key_shows_it_once_and_revokes_it(developer: Api) -> None:
    browser = client_of(person("eve", speech="developer"))
    given = {"name": "shop", "team": team("speech").pk, "services": "chat", "requests_per_minute": "5"}

    made = browser.post("/client-keys/+new/", given)

    row = ClientKey.objects.get()
    assert made.status_code == 201
    assert row.prefix in made.content.decode()
    assert browser.get("/client-keys/?sort=opens").status_code == 200
    browser.post(f"/client-keys/{row.pk}/+revoke/")
    row.refresh_from_db()
    assert row.state == "revoked"
    assert browser.post("/services/chat/+keys/required/").status_code in (200, 204, 302)
    sync_access(gateway_of())
