"""`python -m kube.fake` that starts again forgets what was made in it, and is the same cluster."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.environment import PROJECT
from kube.base import KubernetesClient
from kube.errors import KubeError, NotFound
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import CONFIG_MAPS, NAMESPACES, NODES, Ref
from tests.patience import eventually
from tests.ports import PortBlock

pytestmark = pytest.mark.process


@contextmanager
def running(place: Path, port: int, kubeconfig: str = "") -> Iterator[KubernetesClient]:
    """`kubeconfig`: of a former life; empty: as it says now."""
    command = [sys.executable, "-m", "kube.fake", str(place), "--port", str(port), "--namespace", "ml"]
    process = subprocess.Popen(command, cwd=PROJECT)
    file = place / "kubeconfig"
    try:
        eventually(lambda: file.exists() and file.read_text())
        client = connect(access_of(kubeconfig or file.read_text()))
        eventually(lambda: answers(client))
        yield client
    finally:
        process.terminate()
        process.wait(30)


def answers(client: KubernetesClient) -> bool:
    try:
        return bool(client.list(NODES).items)
    except KubeError:
        return False


@pytest.mark.timeout(120)
def test_a_cluster_that_starts_again_is_the_same_one_and_empty(tmp_path: Path) -> None:
    port = PortBlock()[0]
    kept = Ref(CONFIG_MAPS, "kept", "ml")
    with running(tmp_path, port) as client:
        metadata = {"name": kept.name, "namespace": kept.namespace}
        client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        before = [one["metadata"]["uid"] for one in client.list(NODES).items]
        kubeconfig = (tmp_path / "kubeconfig").read_text()
    with running(tmp_path, port, kubeconfig) as client:
        assert [one["metadata"]["uid"] for one in client.list(NODES).items] == before
        assert client.get(Ref(NAMESPACES, "ml"))["metadata"]["name"] == "ml"
        with pytest.raises(NotFound):
            client.get(kept)
