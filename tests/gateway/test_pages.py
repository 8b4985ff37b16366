"""A cluster's gateway in the browser: set, changed, shown on the cluster's page, removed."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from gateway.backends.gateway_api import configured as kind
from gateway.models import Gateway
from gateway.reconcilers import KeepRoutes
from tests.cast import client_of, person, team
from tests.gateway import cast
from tests.gateway.gateway_api.worlds import Cluster as World

pytestmark = pytest.mark.django_db
PAGE = "/fleet/clusters/local/+gateway/"
WISH = {
    "kind": "gateway_api",
    "gateway": "models",
    "namespace": "slipway",
    "hostnames": "models.example",
    "scheme": "http",
    "assume_features": "HeaderRegularExpression",
    "http_routes": "chat=mine",
    "pool_picker": "{pool}-epp",
    "pool_failure_mode": "FailOpen",
    "metrics": "workers",
}
PROMETHEUS = WISH | {
    "metrics": "prometheus",
    "prometheus_url": "http://prometheus:9090",
    "prometheus_labels": "cluster=west",
    "prometheus_token": "sesame",
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(kind, "_client_of", lambda _: world.client)
    return world


@pytest.fixture
def operator(world: World, settings: Any) -> Client:
    row = cast.cluster()
    row.change(team=team("vision"))
    Gateway.objects.all().delete()
    settings.SLIPWAY_GATEWAY_BACKENDS = settings.SLIPWAY_GATEWAY_BACKENDS | {
        "envoy": "gateway.backends.envoy.configured"
    }
    return client_of(person("ada", vision="operator"))


def shown(client: Client, path: str = PAGE) -> str:
    return client.get(path).content.decode()


def test_a_gateway_is_set_and_the_page_of_its_cluster_says_who_counts_and_what_its_class_has(
    operator: Client,
) -> None:
    assert "It has none" in shown(operator, "/fleet/clusters/local/")
    answer = operator.post(PAGE, WISH)
    assert answer["Location"] == "/fleet/clusters/local/"
    row = Gateway.objects.get()
    assert row.settings == {
        "gateway": "models",
        "namespace": "slipway",
        "hostnames": ["models.example"],
        "assume_features": ["HeaderRegularExpression"],
        "http_routes": {"chat": "mine"},
        "inference_pools": {"picker": "{pool}-epp", "failure_mode": "FailOpen"},
    }
    step = KeepRoutes()
    seen: Any = step.observe(row, None)  # type: ignore[arg-type]
    Gateway.objects.update(**step.settle(row, seen, timezone.now()).save)
    page = shown(operator, "/fleet/clusters/local/")
    assert "Counted by the workers, read from each" in page
    assert "<code>HTTPRouteRequestMirror</code>" in page
    assert "HTTPRoutes cannot choose a share of a header" in page
    assert "slipway/models" in page


def test_the_form_shows_what_is_set_and_keeps_a_token_that_it_never_shows(operator: Client) -> None:
    operator.post(PAGE, PROMETHEUS)
    page = shown(operator)
    assert "sesame" not in page
    for text in ("chat=mine", "cluster=west", "http://prometheus:9090", "Delete the stored token"):
        assert text in page
    row = Gateway.objects.get()
    operator.post(PAGE, PROMETHEUS | {"prometheus_token": "", "revision": row.revision})
    assert Gateway.objects.get().secrets == {"prometheus_token": "sesame"}
    # Who counts otherwise needs none.
    operator.post(PAGE, WISH | {"revision": row.revision + 1})
    row.refresh_from_db()
    assert (row.metrics, row.secrets, row.settings.get("prometheus")) == ("workers", {}, None)


def test_the_fields_are_those_of_the_kind_and_of_who_counts(operator: Client) -> None:
    part = {"HTTP_HX_REQUEST": "true", "HTTP_HX_TARGET": "fields"}
    chosen = operator.post(PAGE, {"kind": "gateway_api", "choosing": "1", "metrics": "gateway"}, **part)
    assert b'name="assume_features"' in chosen.content
    assert b"field-error" not in chosen.content
    assert b'value="gateway"' not in chosen.content, "it counts nothing itself"
    chosen = operator.post(PAGE, {"kind": "envoy", "choosing": "1", "metrics": "prometheus"}, **part)
    assert b'name="admin_port"' in chosen.content
    assert b'name="prometheus_url"' in chosen.content
    assert not Gateway.objects.exists()


@pytest.mark.parametrize(
    ("wish", "fault"),
    [
        (WISH | {"gateway": "Models"}, "cannot be a name in Kubernetes"),
        (WISH | {"hostnames": "A.example:80"}, "without a port"),
        (WISH | {"http_routes": "mine"}, "not of the form key=value"),
        (WISH | {"pool_picker": "No"}, "picker names a Service"),
        (WISH | {"pool_picker": "", "pool_picker_port": "9"}, "Name the Service of the picker"),
        (WISH | {"metrics": "gateway"}, "Select a valid choice"),
        (PROMETHEUS | {"prometheus_url": "prometheus"}, "as in http://prometheus.monitoring:9090"),
        (PROMETHEUS | {"prometheus_stale_seconds": "1"}, "a whole number from 5 to 600"),
        (WISH | {"metrics": "envoy", "envoy_urls": "envoy"}, "without a path"),
        ({"kind": "envoy", "metrics": "gateway", "port": "80", "admin_port": "80"}, "must differ from port"),
    ],
)
def test_what_is_wrong_stands_at_its_field(operator: Client, wish: dict[str, str], fault: str) -> None:
    answer = operator.post(PAGE, wish)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert fault in page
    assert 'class="problem' not in page
    assert not Gateway.objects.exists()


def test_who_came_second_is_told_and_who_may_not_is_refused(operator: Client) -> None:
    operator.post(PAGE, WISH)
    late = operator.post(PAGE, WISH | {"revision": 7})
    assert (late.status_code, b"changed by someone else" in late.content) == (422, True)
    viewer = client_of(person("vic", vision="viewer"))
    assert viewer.post(PAGE, WISH).status_code in (403, 422)
    assert "You may not change this cluster" in shown(viewer)
    assert client_of(person("eve", other="operator")).get(PAGE).status_code == 404


def test_it_is_removed_with_a_reason(operator: Client) -> None:
    operator.post(PAGE, WISH)
    operator.post(f"{PAGE}remove/", {"reason": ""})
    assert Gateway.objects.exists()
    operator.post(f"{PAGE}remove/", {"reason": "Another one."})
    assert not Gateway.objects.exists()
    assert operator.post(f"{PAGE}remove/", {"reason": "Again."}).status_code == 404
