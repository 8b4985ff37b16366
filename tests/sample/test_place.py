"""What the sample asks of a cluster that somebody has already."""

from pathlib import Path

import pytest

from controlplane.env import kubeconfig
from controlplane.sample.failure import SampleFailed
from controlplane.sample.place import Wish, the_gateway
from kube.client import KubeClient
from kube.fake.cluster import FakeCluster
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import FakeTransport
from kube.resources import GATEWAYS, Ref

WISH = Wish(
    kubeconfig=Path("cluster.yaml"),
    image=f"example/worker@sha256:{'1' * 64}",
    store_url="https://slipway.example",
)


def cluster(*gateways: str) -> KubeClient:
    """With the namespace of the sample, and these Gateways in another one."""
    api = FakeCluster(kinds=(*BUILT_IN, *gateway_api()))
    for name in (WISH.namespace, "infra"):
        api.make("namespaces", {"metadata": {"name": name}}, manager="kubectl")
    client = KubeClient(FakeTransport(api))
    for name in gateways:
        listener = {"name": "web", "port": 80, "protocol": "HTTP"}
        client.create(
            {"apiVersion": GATEWAYS.api_version, "kind": "Gateway"}
            | {"metadata": {"name": name, "namespace": "infra"}}
            | {"spec": {"gatewayClassName": "any", "listeners": [listener]}}
        )
    return client


def test_all_that_is_missing_is_said_at_once() -> None:
    client = KubeClient(FakeTransport(FakeCluster()))
    with pytest.raises(SampleFailed) as failed:
        the_gateway(client, Wish(kubeconfig=Path("cluster.yaml"), store_url="http://127.0.0.1:8000"))
    said = str(failed.value)
    assert "kubectl create namespace slipway-sample" in said
    assert "--image" in said
    assert "SLIPWAY_PUBLIC_URL" in said
    assert "The Gateway API is not installed" in said


def test_the_only_gateway_needs_no_name_and_one_of_several_does() -> None:
    assert the_gateway(cluster("web"), WISH) == Ref(GATEWAYS, "web", "infra")
    with pytest.raises(SampleFailed, match="There is no Gateway"):
        the_gateway(cluster(), WISH)
    with pytest.raises(SampleFailed, match="infra/api, infra/web: say which"):
        the_gateway(cluster("web", "api"), WISH)
    named = Wish(**{name: getattr(WISH, name) for name in WISH.__slots__} | {"gateway": "infra/api"})
    assert the_gateway(cluster("web", "api"), named) == Ref(GATEWAYS, "api", "infra")


def test_kubeconfig_names_one_file_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    assert kubeconfig() is None
    file = tmp_path / "cluster.yaml"
    file.touch()
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert kubeconfig() == file
    monkeypatch.setenv("KUBECONFIG", f"{file}:{file}")
    with pytest.raises(SystemExit):
        kubeconfig()
    assert "KUBECONFIG" in capsys.readouterr().err
