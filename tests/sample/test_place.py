"""What the sample asks of a cluster that somebody has already."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.kubernetes.rights import Feature
from controlplane.embedded import sample_cluster
from controlplane.embedded.home import Home
from controlplane.env import kubeconfig
from controlplane.environment import Environment
from controlplane.sample import place
from controlplane.sample.failure import SampleFailed
from controlplane.sample.place import OwnClusterOptions, the_gateway
from gpu_health.drills.orders import ON_THE_MACHINE
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster
from kube.fake.gateway_api import gateway_api
from kube.fake.kinds import BUILT_IN
from kube.fake.transport import FakeTransport
from kube.resources import GATEWAYS, Ref
from tests.kube.accounts import grant, revoke

WISH = OwnClusterOptions(
    kubeconfig=Path("cluster.yaml"),
    image=f"example/worker@sha256:{'1' * 64}",
    store_url="https://slipway.example",
)


def cluster(*gateways: str) -> KubeClient:
    """Return a cluster with the namespace of the sample, and these Gateways in another one."""
    api = SimulatedCluster(kinds=(*BUILT_IN, *gateway_api()))
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
    client = KubeClient(FakeTransport(SimulatedCluster()))
    with pytest.raises(SampleFailed) as failed:
        the_gateway(
            client, OwnClusterOptions(kubeconfig=Path("cluster.yaml"), console="http://127.0.0.1:8000")
        )
    said = str(failed.value)
    assert "kubectl create namespace slipway-sample" in said
    assert "--image" in said
    assert (
        "Pods do not reach Slipway at http://127.0.0.1:8000: set SLIPWAY_BIND and SLIPWAY_PUBLIC_URL" in said
    )
    assert "The Gateway API is not installed" in said


def test_the_only_gateway_needs_no_name_and_one_of_several_does() -> None:
    assert the_gateway(cluster("web"), WISH) == Ref(GATEWAYS, "web", "infra")
    with pytest.raises(SampleFailed, match="There is no Gateway"):
        the_gateway(cluster(), WISH)
    with pytest.raises(SampleFailed, match="infra/api, infra/web: say which"):
        the_gateway(cluster("web", "api"), WISH)
    named = replace(WISH, gateway="infra/api")
    assert the_gateway(cluster("web", "api"), named) == Ref(GATEWAYS, "api", "infra")


def test_the_account_of_the_manifest_is_enough_where_the_gateway_is_named() -> None:
    admin = cluster("web", "api")
    transport = admin.transport
    assert isinstance(transport, FakeTransport)
    features = {*Feature} - {Feature.CHECKS}
    user = grant(transport.server, WISH.namespace, features=features, to=WISH.namespace)
    client = KubeClient(FakeTransport(transport.server, user=user))
    assert the_gateway(client, replace(WISH, gateway="infra/api")) == Ref(GATEWAYS, "api", "infra")
    with pytest.raises(SampleFailed, match="There is no Gateway infra/none"):
        the_gateway(client, replace(WISH, gateway="infra/none"))
    with pytest.raises(SampleFailed, match="is not of the form NAMESPACE/NAME"):
        the_gateway(client, replace(WISH, gateway="web"))
    with pytest.raises(SampleFailed) as failed:
        the_gateway(client, replace(WISH, image=""))
    assert "name yours with --gateway" in str(failed.value)
    assert "--image" in str(failed.value), "all that is missing is said at once"
    revoke(transport.server)
    with pytest.raises(SampleFailed, match="--feature gateway"):
        the_gateway(client, replace(WISH, gateway="infra/api"))


class Console:
    """Knows the machines of the sample's cluster from the second look on."""

    url = "http://slipway"

    def __init__(self, uids: list[str]) -> None:
        self.nodes: list[dict[str, Any]] = [{"uid": uid, "id": number} for number, uid in enumerate(uids, 1)]
        self.looks = 0
        self.asked: list[str] = []

    def each(self, _address: Any, **_wanted: Any) -> list[dict[str, Any]]:
        self.looks += 1
        return self.nodes if self.looks > 1 else []

    def post(self, address: Any, _body: Any) -> dict[str, Any]:
        self.asked.append(str(address))
        return {"token": f"token-{len(self.asked)}"}


def test_each_machine_of_the_samples_cluster_has_an_agent_that_hears_of_drills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "POLL_SECONDS", 0.0)
    env = Environment(home=tmp_path)
    (tmp_path / "sample-cluster").mkdir()
    files = sample_cluster.agent_tokens(tmp_path)
    console = Console(list(files))

    place._ensure_agents(console, files)  # type: ignore[arg-type]

    agents = [
        one for one in sample_cluster.programs(env, Home(tmp_path)) if one.name.startswith("sample-agent")
    ]
    assert len(agents) == len(console.asked) == sample_cluster.MACHINES
    for number, (agent, uid) in enumerate(zip(agents, files, strict=True)):
        said = dict(zip(agent.command[3::2], agent.command[4::2], strict=False))
        assert said["--node"] == uid
        words = " ".join(agent.command)
        assert f"--drill {tmp_path}/sample-cluster/fake-{number}/disk{ON_THE_MACHINE} " in words, words
        assert "--played" in agent.command, "nothing of this computer is told of three machines"
        token = files[uid]
        assert f"--token-file {token} " in words
        assert token.read_text() == f"token-{number + 1}"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600


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
