"""Workers in pods: a cluster in a process of its own, the real client, real worker processes."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from clusters.backends.base import DeploymentSpec, ObservedState, ObservedWorker
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import FileDeliveryKind, KubernetesSettings
from common.fence import Fence
from controlplane.environment import PROJECT
from kube.base import KubernetesClient
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import PODS
from tests.clusters.kubernetes.test_manifests import SPEC
from tests.patience import eventually

pytestmark = pytest.mark.stack

SETTINGS = KubernetesSettings(model_files=FileDeliveryKind.CLAIM)
numbers = count(1)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesClient]:
    home = tmp_path_factory.mktemp("cluster")
    process = subprocess.Popen([sys.executable, "-m", "kube.fake", str(home)], cwd=PROJECT)
    try:
        eventually(lambda: _has_text(home / "kubeconfig"))
        client = connect(access_of((home / "kubeconfig").read_text()))
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slipway"}})
        client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": SETTINGS.model_claim, "namespace": "slipway"},
                "spec": {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
        yield client
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def cluster(client: KubernetesClient) -> KubernetesCluster:
    return KubernetesCluster(client, SETTINGS)


def _has_text(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


def wish(**fields: object) -> DeploymentSpec:
    resources = replace(SPEC.resources, gpus=0, cpus=0.5)
    spec = replace(SPEC, name=f"chat-{next(numbers)}", engine="echo", device="cpu", resources=resources)
    return replace(spec, **fields)  # type: ignore[arg-type]


def ready(cluster: KubernetesCluster, spec: DeploymentSpec) -> list[ObservedWorker]:
    def all_are() -> bool:
        states = [worker.state for worker in cluster.observe(spec.name)]
        return states == [ObservedState.READY] * spec.replicas

    eventually(all_are)
    return list(cluster.observe(spec.name))


def version_of(worker: ObservedWorker) -> str:
    with urllib.request.urlopen(f"http://{worker.address}:{worker.port}/healthz") as answer:
        return str(json.load(answer)["version"])


def test_a_deployment_gets_its_workers_and_they_answer(cluster: KubernetesCluster) -> None:
    spec = wish()
    cluster.apply(spec, fence=Fence(1, 1))
    workers = ready(cluster, spec)
    assert {version_of(worker) for worker in workers} == {spec.version.label}
    assert {worker.node for worker in workers} <= {node.name for node in cluster.nodes()}
    assert "listens on" in cluster.logs(workers[0].id, lines=50)


def test_more_and_fewer_workers_leave_the_others_alone(cluster: KubernetesCluster) -> None:
    spec = wish(replicas=1)
    cluster.apply(spec, fence=Fence(1, 1))
    (first,) = ready(cluster, spec)
    more = replace(spec, replicas=3)
    cluster.apply(more, fence=Fence(1, 2))
    assert first.id in {worker.id for worker in ready(cluster, more)}
    cluster.apply(spec, fence=Fence(1, 3))
    ready(cluster, spec)


def test_other_settings_replace_workers_and_some_always_answer(cluster: KubernetesCluster) -> None:
    spec = wish(replicas=1)
    cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(cluster, spec)
    changed = replace(spec, slots=9)
    cluster.apply(changed, fence=Fence(1, 2))

    def is_replaced() -> bool:
        seen = cluster.observe(spec.name)
        assert any(worker.state is ObservedState.READY for worker in seen)
        return before.id not in {worker.id for worker in seen}

    eventually(is_replaced)


def test_one_that_cannot_run_says_why(cluster: KubernetesCluster) -> None:
    spec = wish(replicas=1, image=f"registry.invalid/none@sha256:{'0' * 64}")
    cluster.apply(spec, fence=Fence(1, 1))
    eventually(lambda: [one.state for one in cluster.observe(spec.name)] == [ObservedState.FAILED])
    assert "cannot be pulled" in cluster.observe(spec.name)[0].reason


def test_one_that_no_machine_can_take_says_what_is_missing(cluster: KubernetesCluster) -> None:
    spec = wish(replicas=1, device="cuda", resources=replace(SPEC.resources, gpus=4))
    cluster.apply(spec, fence=Fence(1, 1))
    words = "too little nvidia.com/gpu free on 2 machines"
    eventually(lambda: any(words in one.reason for one in cluster.observe(spec.name)))


def test_what_is_removed_drains_and_leaves_nothing(
    cluster: KubernetesCluster, client: KubernetesClient
) -> None:
    spec = wish()
    cluster.apply(spec, fence=Fence(1, 1))
    ready(cluster, spec)
    cluster.remove(spec.name, fence=Fence(1, 2))
    eventually(lambda: cluster.observe(spec.name) == ())
    assert not client.list(PODS, namespace="slipway", labels=f"slipway.io/deployment={spec.name}").items
