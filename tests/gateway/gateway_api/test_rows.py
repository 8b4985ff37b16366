"""A cluster's gateway row of this kind: its settings, who counts, and what its class lacks."""

from typing import Any

import pytest

from clusters.backends import configured as clusters_configured
from clusters.backends.configured import SECRETS_PURPOSE
from clusters.models import Cluster
from common.actor import Actor
from common.sealed import seal
from gateway import selectors
from gateway.backends import configured
from gateway.backends.gateway_api import configured as kind
from gateway.backends.gateway_api.backend import GatewayApi
from gateway.backends.prometheus import PrometheusCounters
from gateway.backends.worker_counters import WorkerCounters
from gateway.errors import InvalidGateway
from gateway.history import minute_of
from gateway.models import Gateway
from gateway.reconcilers import GatewayReconciler
from gateway.services import gateways
from gateway.states import GatewayKind, MetricsKind
from kube.resources import GATEWAYS, Ref
from tests.clusters.kubernetes.kubeconfigs import kubeconfig
from tests.crash.harness import Clock, worker
from tests.gateway import cast
from tests.gateway.gateway_api.worlds import Cluster as World

pytestmark = pytest.mark.django_db
ANN = Actor.system("test")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(kind, "_client_of", lambda _: world.client)
    return world


def set_gateway(**options: Any) -> Any:
    given = {"metrics": MetricsKind.WORKERS, "settings": {"gateway": "models"}} | options
    return gateways.set_gateway(actor=ANN, cluster=cast.cluster(), kind=GatewayKind.GATEWAY_API, **given)


def test_a_row_names_the_gateway_and_who_counts(world: World) -> None:
    row = set_gateway(settings={"gateway": "models", "hostnames": ["models.example"], "scheme": "https"})
    made = configured.backends_of(row)
    assert isinstance(made.traffic, GatewayApi)
    assert isinstance(made.metrics, WorkerCounters)
    assert selectors.public_url(row) == "https://models.example"
    assert (row.host, made.traffic.health().ok) == ("", True)
    named = {"gateway": "models", "prometheus": {"url": "http://prometheus:9090"}}
    row = set_gateway(settings=named, metrics=MetricsKind.PROMETHEUS, secrets={"prometheus_token": "sesame"})
    assert isinstance(configured.backends_of(row).metrics, PrometheusCounters)


def test_where_nobody_says_how_clients_reach_it_the_gateway_does(world: World) -> None:
    row = set_gateway()
    assert selectors.public_url(row) == ""
    address = {"status": {"addresses": [{"type": "IPAddress", "value": "10.0.0.9"}]}}
    world.client.patch(Ref(GATEWAYS, "models", "slipway"), address, subresource="status")
    clock = Clock()
    Gateway.objects.update(next_at=clock(), recorded_minute=minute_of(clock()))
    worker([GatewayReconciler()], clock).sweep()
    row.refresh_from_db()
    assert selectors.public_url(row) == "http://10.0.0.9"
    assert selectors.public_url(set_gateway(public_url="https://models.example/")) == "https://models.example"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"settings": {}}, "name the Gateway of the cluster"),
        ({"settings": {"gateway": "Models"}}, "cannot be a name in Kubernetes"),
        ({"settings": {"gateway": "models", "port": "1"}}, "no such setting of this kind of gateway"),
        ({"settings": {"gateway": "models", "namespace": ""}}, "cannot name a namespace"),
        ({"settings": {"gateway": "models", "hostnames": "a.example"}}, "a list of names of hosts"),
        ({"settings": {"gateway": "models", "hostnames": ["A.example:80"]}}, "without a port"),
        ({"settings": {"gateway": "models", "http_routes": ["x"]}}, "an object of services"),
        ({"settings": {"gateway": "models", "request_timeout": "1 minute"}}, "0s .none., 90s, 10m"),
        ({"metrics": MetricsKind.GATEWAY}, "counts nothing: workers, prometheus or envoy"),
        ({"metrics": MetricsKind.PROMETHEUS}, "with the url of Prometheus"),
        ({"secrets": {"token": "x"}}, "told with the credential of its cluster"),
    ],
)
def test_what_is_wrong_in_a_row_is_told_when_it_is_set(world: World, options: Any, why: str) -> None:
    with pytest.raises(InvalidGateway, match=why):
        set_gateway(**options)


def test_a_cluster_that_is_no_kubernetes_has_no_such_gateway() -> None:
    with pytest.raises(InvalidGateway, match="is no Kubernetes cluster"):
        set_gateway()


def test_the_credential_is_that_of_the_cluster_and_nobody_is_asked_before_it_is_needed(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Rows of other tests had the same ids.
    monkeypatch.setattr(clusters_configured, "_connected", {})
    configured.forget()
    settings.SLIPWAY_CLUSTER_BACKENDS = {"kubernetes": "clusters.backends.kubernetes.configured"}
    sealed = {"kubeconfig": seal(kubeconfig(), purpose=SECRETS_PURPOSE)}
    west = Cluster.objects.create(name="west", kind="kubernetes", sealed_secrets=sealed)
    row = gateways.set_gateway(
        actor=ANN,
        cluster=west,
        kind=GatewayKind.GATEWAY_API,
        metrics=MetricsKind.WORKERS,
        settings={"gateway": "models"},
    )
    health = configured.backends_of(row).traffic.health()
    assert not health.ok
    assert "127.0.0.1:1" in health.detail
