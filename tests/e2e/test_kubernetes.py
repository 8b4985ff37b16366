"""The main job on a Kubernetes cluster: from `cluster add` to a promoted canary, with workers in pods."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from kube.kubeconfig import access_of
from kube.real.transport import connect
from slipway.client import at
from tests.e2e.conftest import MODEL, Scene, Traffic
from tests.patience import eventually
from tests.ports import PortBlock

pytestmark = [pytest.mark.stack, pytest.mark.slow, pytest.mark.timeout(900)]

CLUSTER, SERVICE = "west", "far"
DIGEST = "0" * 64


@pytest.fixture
def kubeconfig(scene: Scene, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a cluster whose machines find the store's files on a volume claim."""
    claims = tmp_path / "claims"
    claims.mkdir()
    (claims / "slipway-models").symlink_to(scene.stack.home.path / "models")
    process = subprocess.Popen([sys.executable, "-m", "kube.fake", str(tmp_path)], cwd=PROJECT)
    file = tmp_path / "kubeconfig"
    try:
        eventually(lambda: file.exists() and file.read_text())
        client = connect(access_of(file.read_text()))
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slipway"}})
        client.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": "slipway-models", "namespace": "slipway"},
                "spec": {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}},
            }
        )
        yield file
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def gateway(scene: Scene, kubeconfig: Path) -> Iterator[str]:
    """Address of the cluster's gateway, when the cluster is there."""
    added = scene.slipway(
        "cluster", "add", CLUSTER, "--kubeconfig", str(kubeconfig), "--set", "model_files=claim",
        "--set", f"report_url={scene.url}", "--no-wait",
    )  # fmt: skip
    assert added.returncode == 0, added.stdout + added.stderr
    ports = PortBlock()
    port, admin_port = ports[0], ports[1]
    scene.admin.put(
        at("clusters", CLUSTER, "gateway"),
        {"kind": "envoy", "settings": {"port": port, "admin_port": admin_port}},
    )
    envoy = subprocess.Popen(
        [sys.executable, "-m", "controlplane.server", "gateway", "--cluster", CLUSTER],
        cwd=PROJECT,
        env=scene.stack.environ,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        envoy.terminate()
        envoy.wait(30)


def test_a_version_goes_from_the_registry_to_all_traffic_of_a_kubernetes_cluster(
    scene: Scene, gateway: str
) -> None:
    scene.admin.create(
        at("images"),
        {
            "name": "echo",
            "engine": "echo",
            "engine_version": "1",
            "reference": f"registry.example.org/slipway/worker@sha256:{DIGEST}",
            "formats": ["safetensors"],
            "runs_on_cpu": True,
        },
    )
    service = scene.admin.create(
        at("services"),
        {"name": SERVICE, "model": MODEL, "version": "v1", "cluster": CLUSTER}
        | {
            "engine": "echo",
            "replicas": 2,
            "plan": "swift",
            "resources": {"gpus_per_worker": 0, "cpus": 0.5},
            "device": "cpu",
        },
    )
    scene.wait_for({"id": service["release_in_motion"]}, "promoted", "failed", "stuck")
    traffic = Traffic(f"{gateway}/{SERVICE}")
    traffic.start()
    try:

        def both_work() -> bool:
            now = scene.admin.get(at("clusters", CLUSTER, "busy"))["now"]
            return (now["busy"] or 0) > 0 and (now["workers"], now["ready"], now["lost"]) == (2, 2, 0)

        eventually(both_work)
        release = scene.ci.create(
            at("releases"), {"service": SERVICE, "version": "v2", "reason": "longer training"}
        )
        scene.wait_for(release, "waiting_approval")
        scene.admin.post(at("releases", release["id"], "approve"), {"reason": "as it should be"})
        scene.wait_for(release, "promoted")
        traffic.latest.clear()
        eventually(lambda: set(traffic.latest) == {f"{MODEL}:v2"})
    finally:
        traffic.stop()
    assert traffic.failures == []
    assert traffic.answers.keys() == {f"{MODEL}:v1", f"{MODEL}:v2"}
