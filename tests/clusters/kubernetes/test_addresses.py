"""API servers may be in private networks, and not where only our own machine reaches."""

from typing import Any

import pytest
from django.test import Client

from clusters.backends.kubernetes import addresses
from clusters.backends.kubernetes.addresses import addresses_of, check_host
from clusters.models import Cluster
from common.outbound.addresses import address_of
from kube.errors import ApiUnreachable, BadConfig
from kube.fake.http_server import FakeHttpServer
from kube.fake.server import FakeApiServer
from kube.fake.wire import ADMIN
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import CONFIG_MAPS
from tests.cast import api, person
from tests.clusters.kubernetes.kubeconfigs import kubeconfig

REFUSED = [
    "127.0.0.1", "127.8.8.8", "::1", "localhost", "api.localhost.", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
    "0.0.0.0", "169.254.169.254", "169.254.0.7", "fe80::1", "fd00:ec2::254", "168.63.129.16",
    "100.100.100.200", "224.0.0.1", "2002:7f00:1::",
]  # fmt: skip


@pytest.fixture
def guarded(settings: Any) -> Any:
    """Guard addresses as in production."""
    settings.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ()
    return settings


@pytest.mark.parametrize("host", REFUSED)
def test_what_only_this_machine_reaches_is_refused(guarded: Any, host: str) -> None:
    with pytest.raises(BadConfig, match="SLIPWAY_CLUSTER_ALLOWED_NETWORKS"):
        check_host(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "192.168.1.4", "100.64.3.2", "fd12::1", "203.0.113.9", "k8s.example.org"]
)
def test_private_networks_are_where_clusters_are(guarded: Any, host: str) -> None:
    check_host(host)


def test_the_setting_lets_a_network_pass(guarded: Any) -> None:
    guarded.SLIPWAY_CLUSTER_ALLOWED_NETWORKS = ("127.0.0.0/8", "169.254.1.0/24")
    check_host("127.0.0.1")
    check_host("169.254.1.9")
    with pytest.raises(BadConfig):
        check_host("169.254.169.254")


def test_a_name_that_leads_there_is_refused_when_it_is_asked(
    guarded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ["10.0.0.1"]
    monkeypatch.setattr(addresses, "resolve", lambda host, port: [address_of(one) for one in found])
    assert addresses_of("k8s.example.org", 443) == ["10.0.0.1"]
    found.append("169.254.169.254")
    with pytest.raises(BadConfig, match=r"k8s.example.org \(169.254.169.254\) is an address"):
        addresses_of("k8s.example.org", 443)


def test_the_connection_goes_where_was_judged_under_the_name_that_was_meant(monkeypatch) -> None:
    """Whatever the resolver says the second time."""
    server = FakeHttpServer(FakeApiServer(), tokens={"t0ken": ADMIN})
    asked: list[tuple[str, int]] = []

    def judge(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    try:
        port = int(server.url.rpartition(":")[2])
        config = kubeconfig(server=f"http://localhost:{port}", token="t0ken")
        client = connect(access_of(config), judge=judge)
        assert client.list(CONFIG_MAPS, namespace="default").items == ()
        client.list(CONFIG_MAPS, namespace="default")
        assert asked == [("localhost", port)]
        refusing = connect(access_of(config), judge=addresses_of)
        assert refusing.list(CONFIG_MAPS, namespace="default").items == ()
        nowhere = connect(access_of(config), judge=lambda host, port: [])
        with pytest.raises(ApiUnreachable):
            nowhere.list(CONFIG_MAPS, namespace="default")
    finally:
        server.close()


def test_a_connection_that_is_refused_is_never_made(guarded: Any) -> None:
    server = FakeHttpServer(FakeApiServer(), tokens={"t0ken": ADMIN})
    try:
        client = connect(access_of(kubeconfig(server=server.url, token="t0ken")), judge=addresses_of)
        with pytest.raises(BadConfig, match=r"127\.0\.0\.1 is an address that only"):
            client.list(CONFIG_MAPS, namespace="default")
    finally:
        server.close()


@pytest.mark.django_db
def test_every_door_says_what_to_do(guarded: Any) -> None:
    guarded.SLIPWAY_CLUSTER_BACKENDS = guarded.SLIPWAY_CLUSTER_BACKENDS | {
        "kubernetes": "clusters.backends.kubernetes.configured"
    }
    text = kubeconfig(server="https://169.254.169.254")
    root = person("root", superuser=True, vision="operator")
    given = {"name": "prod", "kind": "kubernetes", "secrets": {"kubeconfig": text}}
    answer = api(root).post("clusters/", given)
    assert answer.status_code == 400
    assert "SLIPWAY_CLUSTER_ALLOWED_NETWORKS" in str(answer.json()["errors"]["secrets"])
    browser = Client()
    browser.force_login(root)
    wish = {"name": "prod", "team": "vision", "namespace": "ml", "model_files": "claim", "kubeconfig": text}
    page = browser.post("/fleet/clusters/+new/", wish)
    assert "only this machine reaches" in page.content.decode()
    proxy = "proxy-url: http://127.0.0.1:3128\n    server:"
    given["secrets"] = {"kubeconfig": kubeconfig(server="https://10.0.0.1").replace("server:", proxy)}
    answer = api(root).post("clusters/", given)
    assert "127.0.0.1" in str(answer.json()["errors"]["secrets"])
    assert not Cluster.objects.exists()
