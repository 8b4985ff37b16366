"""Model files of a cluster whose Jobs and pods are real processes: fetched before workers, then served."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.backends.base import (
    ClusterUnreachable,
    DeploymentSpec,
    FilesFetch,
    FilesPending,
    ModelFile,
    ModelVersion,
    ObservedState,
    ObservedWorker,
)
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from common.fence import Fence
from controlplane.environment import PROJECT
from kube.base import KubernetesClient
from kube.kubeconfig import access_of
from kube.real.transport import connect
from kube.resources import JOBS
from tests.clusters.kubernetes.test_manifests import SPEC
from tests.http_server import http_server
from tests.patience import eventually
from tests.serving.files_server import TOKEN, Files
from tests.serving.tiny_model import write_tiny_adapter, write_tiny_model

pytestmark = pytest.mark.stack

FILES = {"config.json": b"{}", "model.safetensors": b"0123456789" * 200_000}


class ClusterWithFiles:
    """A cluster in a process of its own, and a control plane that has the files."""

    def __init__(self, root: Path, client: KubernetesClient, files: Files, url: str) -> None:
        self.root = root
        self.client = client
        self.files = files
        self.url = url
        self.turn = 0
        self.told: list[FilesFetch] = []
        self.words = ""

    def cluster(self, **settings: object) -> KubernetesCluster:
        return KubernetesCluster(
            self.client, KubernetesSettings.read({"store_url": self.url, **settings}), store_token=TOKEN
        )

    def spec(self, name: str, **fields: object) -> DeploymentSpec:
        manifest = self.files.manifest
        listed = tuple(ModelFile(one.path, one.size, one.sha256) for one in manifest.files)
        version = ModelVersion(id=7, label="story:v1", digest=manifest.digest, files=listed)
        resources = replace(SPEC.resources, gpus=0, cpus=0.5)
        spec = replace(
            SPEC, name=name, version=version, engine="echo", device="cpu", resources=resources, replicas=1
        )
        return replace(spec, **fields)  # type: ignore[arg-type]

    def is_applied(self, cluster: KubernetesCluster, spec: DeploymentSpec) -> bool:
        """Apply as the reconciler does: until the cluster has the desired state."""
        self.turn += 1
        try:
            cluster.apply(spec, fence=Fence(1, self.turn))
        except FilesPending as coming:
            self.told += coming.fetches
            self.words = str(coming)
            return False
        except ClusterUnreachable:
            return False
        return True

    def is_ready(self, cluster: KubernetesCluster, spec: DeploymentSpec) -> bool:
        states = [worker.state for worker in cluster.observe(spec.name)]
        return states == [ObservedState.READY] * spec.replicas


@pytest.fixture
def place(tmp_path: Path) -> Iterator[ClusterWithFiles]:
    files = Files(FILES)
    process = subprocess.Popen([sys.executable, "-m", "kube.fake", str(tmp_path)], cwd=PROJECT)
    try:
        kubeconfig = tmp_path / "kubeconfig"
        eventually(lambda: kubeconfig.exists() and kubeconfig.read_text() != "")
        client = connect(access_of(kubeconfig.read_text()))
        client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slipway"}})
        client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "shared"},
                "provisioner": "nfs.csi.k8s.io",
            }
        )
        with http_server(files.handler) as url:
            yield ClusterWithFiles(tmp_path, client, files, url)
    finally:
        process.terminate()
        process.wait(30)


def test_a_claim_is_filled_by_a_job_and_workers_serve_from_it(place: ClusterWithFiles) -> None:
    cluster, spec = place.cluster(model_files="filled_claim"), place.spec("chat-1")
    assert not place.is_applied(cluster, spec)
    assert cluster.observe(spec.name) == ()
    eventually(lambda: place.is_applied(cluster, spec))
    (directory,) = place.root.glob("claims/*/versions/*")
    assert (directory / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    eventually(lambda: place.is_ready(cluster, spec))
    sent = place.files.sent_bytes()
    again = place.spec("chat-2")
    eventually(lambda: place.is_applied(cluster, again) and place.is_ready(cluster, again))
    assert place.files.sent_bytes() == sent


def test_machines_have_the_files_before_the_first_worker(place: ClusterWithFiles) -> None:
    cluster = place.cluster()
    early = place.spec("chat-1", replicas=0, prefetch_machines=0)
    eventually(lambda: place.is_applied(cluster, early))
    kept = sorted(place.root.glob("fake-*/disk/var/lib/slipway/models/versions/*/model.safetensors"))
    assert len(kept) == 2
    assert {one.place for one in place.told} == {"fake-0", "fake-1"}
    sent = place.files.sent_bytes()
    workers = replace(early, replicas=1)
    eventually(lambda: place.is_applied(cluster, workers) and place.is_ready(cluster, workers))
    assert place.files.sent_bytes() == sent
    eventually(lambda: place.client.list(JOBS, namespace="slipway").items == ())


def test_a_token_that_is_refused_is_the_reason_why_nothing_comes(place: ClusterWithFiles) -> None:
    refused = KubernetesCluster(
        place.client,
        KubernetesSettings.read({"store_url": place.url, "model_files": "filled_claim"}),
        store_token="slp_nonsense",
    )
    spec = place.spec("chat-1")

    def is_told() -> bool:
        return not place.is_applied(refused, spec) and "This token is expired" in place.words

    eventually(is_told)
    assert refused.observe(spec.name) == ()


def version_in(files: Files, label: str, directory: Path) -> ModelVersion:
    """The directory as a version that the control plane hands out."""
    number = 8 + len(files.further)
    named = {one.relative_to(directory).as_posix(): one for one in directory.rglob("*") if one.is_file()}
    version = files.further[str(number)] = Files({name: one.read_bytes() for name, one in named.items()})
    return ModelVersion(id=number, label=label, digest=version.manifest.digest)


def loaded(worker: ObservedWorker) -> set[str]:
    with urllib.request.urlopen(f"http://{worker.address}:{worker.port}/v1/models") as answer:
        return {one["id"] for one in json.load(answer)["data"]} & {"pirate", "parrot"}


@pytest.mark.slow
def test_adapters_come_to_a_pod_that_runs_and_go_again(tmp_path: Path, place: ClusterWithFiles) -> None:
    model = version_in(place.files, "story:v1", write_tiny_model(tmp_path / "model"))
    pirate = version_in(place.files, "pirate:v1", write_tiny_adapter(tmp_path / "pirate", head_dim=8))
    cluster = place.cluster()
    spec = place.spec("chat-1", engine="transformers", version=model, adapters={"pirate": pirate})
    eventually(lambda: place.is_applied(cluster, spec) and place.is_ready(cluster, spec))
    (worker,) = cluster.observe(spec.name)
    assert loaded(worker) == {"pirate"}, "it took requests before it had its adapter"

    assert place.is_applied(cluster, replace(spec, adapters={"pirate": pirate, "parrot": pirate}))
    eventually(lambda: loaded(worker) == {"pirate", "parrot"})
    lost = replace(pirate, id=99, digest="ab" * 32)
    assert place.is_applied(cluster, replace(spec, adapters={"parrot": lost}))
    eventually(lambda: loaded(worker) == {"parrot"})  # as before, until its next version has come
    assert [one.id for one in cluster.observe(spec.name)] == [worker.id]
