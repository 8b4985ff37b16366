"""A gateway belongs to a cluster: two clusters have two, which share neither routes nor counts nor ports."""

import pytest
from django.utils import timezone

from accounts.states import Role
from clusters.events import ClusterRegistered
from clusters.models import Cluster
from clusters.services.clusters import register_cluster
from common import events
from common.actor import Actor
from common.errors import Invalid
from common.fence import Fence
from common.models import AuditRecord
from gateway import selectors
from gateway.backends import configured
from gateway.errors import GatewayInUse, GatewayTaken, InvalidGateway, InvalidRoute, NoGateway
from gateway.models import Gateway, Route
from gateway.reconcilers import GatewayReconciler
from gateway.routes import RouteSpec, RouteTarget
from gateway.services import gateways, routes
from tests.cast import Api, person, token_of
from tests.crash.harness import Clock, worker
from tests.gateway.cast import cluster, fake_gateway, set_route

SYSTEM = Actor.system("test")
ENVOY = {"envoy": "gateway.backends.envoy.configured"}
CHAT = RouteSpec("chat", RouteTarget("chat-1", "chatty:1"), None, 0)
DOCS = RouteSpec("docs", RouteTarget("docs-1", "writer:1"), None, 0)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _forget() -> None:
    configured.forget()


def test_the_routes_and_counts_of_two_clusters_do_not_mix() -> None:
    prague, tokyo = fake_gateway("prague"), configured.traffic_backend_of(cluster("tokyo"))
    assert prague is not tokyo
    set_route(CHAT, fence=Fence(1, 1), actor=SYSTEM, at="prague")
    set_route(DOCS, fence=Fence(1, 1), actor=SYSTEM, at="tokyo")
    assert (prague.desired_route("docs"), tokyo.desired_route("chat")) == (None, None)
    prague.send("chat", 7)
    assert sum(one.routed for one in selectors.counts(selectors.route("chat")).values()) == 7
    assert sum(one.routed for one in selectors.counts(selectors.route("docs")).values()) == 0
    with pytest.raises(InvalidRoute, match="behind the gateway of prague"):
        set_route(CHAT, fence=Fence(2, 1), actor=SYSTEM, at="tokyo")


def test_a_dead_gateway_keeps_no_other_from_its_routes() -> None:
    prague = fake_gateway("prague")
    set_route(CHAT, fence=Fence(1, 1), actor=SYSTEM, at="prague")
    set_route(DOCS, fence=Fence(1, 1), actor=SYSTEM, at="tokyo")
    prague.stop()
    Route.objects.update(applied_at=None)
    worker([GatewayReconciler()], Clock()).sweep()
    seen = dict(Gateway.objects.values_list("cluster__name", "is_healthy"))
    assert seen == {"prague": False, "tokyo": True}
    assert selectors.route("docs").applied_at
    assert "stopped" in selectors.route("chat").problem
    lanes = {GatewayReconciler().lane_of(row) for row in Gateway.objects.all()}
    assert lanes == {"gateway:prague", "gateway:tokyo"}
    assert not selectors.health().ok
    assert "prague" in selectors.health().detail


def test_a_changed_row_is_another_gateway_and_gets_its_routes_anew() -> None:
    before = fake_gateway("prague")
    set_route(CHAT, fence=Fence(1, 1), actor=SYSTEM, at="prague")
    changed = {"kind": "envoy", "settings": {"zone": "b"}, "secrets": {"token": "s3cret"}}
    gateways.set_gateway(actor=SYSTEM, cluster=cluster("prague"), **changed)
    after = configured.traffic_backend_of(cluster("prague"))
    assert after is not before
    assert after.config.secrets == {"token": "s3cret"}
    row = Gateway.objects.get()
    assert "s3cret" not in row.sealed_secrets + str(list(AuditRecord.objects.values()))
    worker([GatewayReconciler()], Clock()).sweep()
    assert after.desired_route("chat") == CHAT
    gateways.set_gateway(actor=SYSTEM, cluster=cluster("prague"), kind="envoy", settings={"zone": "c"})
    assert configured.traffic_backend_of(cluster("prague")).config.secrets == {"token": "s3cret"}


def test_a_cluster_gets_its_usual_gateway_when_it_is_registered(settings) -> None:
    settings.SLIPWAY_GATEWAY_BACKENDS = ENVOY
    first = register_cluster(actor=SYSTEM, name="local", kind="embedded")
    second = register_cluster(actor=SYSTEM, name="other", kind="embedded")
    foreign = Cluster.objects.create(name="prod", kind="kubernetes")
    events.publish(ClusterRegistered(foreign.pk))
    assert selectors.public_urls([first.pk]) == {first.pk: settings.SLIPWAY_GATEWAY_URL}
    for without in (second, foreign):
        with pytest.raises(NoGateway, match=f"{without.name} has no gateway"):
            set_at = {"cluster": without, "fence": Fence(1, 1), "actor": SYSTEM}
            routes.set_route(CHAT, **set_at)


def test_a_second_envoy_has_files_and_ports_of_its_own_or_is_refused(settings) -> None:
    settings.SLIPWAY_GATEWAY_BACKENDS = ENVOY
    register_cluster(actor=SYSTEM, name="local", kind="embedded")
    other = register_cluster(actor=SYSTEM, name="other", kind="embedded")

    def put(**given: object) -> Gateway:
        return gateways.set_gateway(actor=SYSTEM, cluster=other, kind="envoy", settings=given)

    with pytest.raises(GatewayTaken, match="local has port"):
        put()
    with pytest.raises(GatewayTaken, match=f"port {settings.SLIPWAY_GATEWAY_PORT}"):
        put(port=9_001, admin_port=settings.SLIPWAY_GATEWAY_PORT)
    for wrong in (
        {"port": 9_001},
        {"port": 9_001, "admin_port": 9_001},
        {"port": 0, "admin_port": 9_002},
        {"port": 9_001, "admin_port": 9_002, "bind": "here"},
        {"port": 9_001, "admin_port": 9_002, "colour": "red"},
    ):
        with pytest.raises(InvalidGateway):
            put(**wrong)
    row = put(port=9_001, admin_port=9_002, bind="0.0.0.0")
    assert selectors.public_url(row) == "http://127.0.0.1:9001"
    layouts = [configured.backends_of(one).traffic.layout for one in selectors.gateways()]
    assert len({one.run_dir for one in layouts}) == len({one.access_log for one in layouts}) == 2


def test_a_gateway_is_read_and_set_over_rest() -> None:
    cluster("local")
    root = Api(token_of(person("root", superuser=True)))
    shown = root.get("clusters/local/gateway/").json()
    assert (shown["kind"], shown["metrics"], shown["secrets"]) == ("envoy", "gateway", [])
    body = {"kind": "envoy", "public_url": "https://models.example", "secrets": {"token": "s3cret"}}
    put = root.put("clusters/local/gateway/", body)
    assert (put.status_code, put.json()["public_url"]) == (200, "https://models.example")
    assert put.json()["secrets"] == ["token"]
    assert "s3cret" not in put.content.decode()
    viewer = Api(token_of(person("ada", ours=Role.VIEWER)))
    assert viewer.put("clusters/local/gateway/", body).status_code == 403
    assert root.put("clusters/local/gateway/", {"kind": "mystery"}).status_code == 400


def test_a_gateway_is_removed_once_no_route_leads_through_it_nor_did_a_moment_ago() -> None:
    cluster("local")
    set_route(CHAT, fence=Fence(1, 1), actor=SYSTEM)
    row = Gateway.objects.get()

    def remove() -> None:
        gateways.remove_gateway(row, actor=SYSTEM, reason="Another one comes.")

    with pytest.raises(GatewayInUse, match="the route of service chat"):
        remove()
    routes.remove_route("chat", fence=Fence(1, 2), actor=SYSTEM)
    with pytest.raises(GatewayInUse, match="Try again in 5 min"):
        remove()
    Route.objects.update(removed_at=timezone.now() - gateways.LATE_WRITERS)
    with pytest.raises(Invalid, match="reason"):
        gateways.remove_gateway(row, actor=SYSTEM)
    remove()
    with pytest.raises(NoGateway):
        configured.traffic_backend_of(row.cluster)
