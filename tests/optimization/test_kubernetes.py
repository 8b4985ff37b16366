"""Recipes as Jobs of a Kubernetes cluster: pods that really run, and reach the control plane over HTTP."""

import base64
import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from benchmarks import validity
from benchmarks.leases import give_back, take
from benchmarks.reconcilers.benchmarks import BenchmarkReconciler
from benchmarks.reconcilers.cleanup import CleanupReconciler
from benchmarks.reconcilers.runs import RunReconciler
from benchmarks.selectors import gpu_hours_used
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from clusters.services.files_tokens import issue_files_token
from common.errors import Invalid
from common.reconcile import Kernel
from controlplane.environment import PROJECT
from kube.client import KubeClient
from kube.fake.__main__ import Logs, NoKubelets
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.kubelet import Kubelet
from kube.fake.transport import FakeTransport
from kube.resources import JOBS, PODS, SECRETS
from models_registry.models import Version
from models_registry.reconcilers.versions import VersionReconciler
from optimization.errors import InvalidOptimization
from optimization.models import AccuracyCheck, OptimizationJobToken, OptimizationRun
from optimization.reconcilers.runs import OptimizationReconciler
from optimization.services import cancel_run
from optimization.verdicts import measured_on
from tests.benchmarks.conftest import OF_THE_MACHINE
from tests.cast import SYSTEM
from tests.images.builders import image, reference
from tests.optimization.conftest import OptimizationScene
from tests.optimization.tiny import sentences, write_items

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process, pytest.mark.timeout(600)]
OWNER = "slipway.io/job-owner"
addresses = (f"127.23.{number // 250}.{number % 250 + 1}" for number in itertools.count())


class RecipesInCluster(OptimizationScene):
    """Two machines of a cluster whose pods are processes of this computer."""

    def __init__(self, root: Path, url: str) -> None:
        super().__init__(root)
        machines = [node("plain"), node("gpu", **{"nvidia.com/gpu": "2"})]
        self.api = SimulatedCluster(nodes=machines, start=datetime.now(UTC))
        self.client = KubeClient(FakeTransport(self.api))
        self.kubelets = [
            Kubelet(
                self.client, one, root / "machines" / one, addresses, PROJECT, events=self.api.events,
                is_cut_off=lambda: False,
            )
            for one in ("plain", "gpu")
        ]  # fmt: skip
        self.api.kubelets = NoKubelets()  # type: ignore[assignment]
        self.api.logs = Logs(self.kubelets)  # type: ignore[assignment]
        self.api.make("namespaces", {"metadata": {"name": "slipway"}})
        where = {"store_url": url, "jobs_image": reference("jobs")}
        image("worker", engine="transformers", reference=reference("worker"), runs_on_cpu=True)
        row = Cluster.objects.create(name="west", kind="kubernetes", settings=where, next_at=timezone.now())
        token = issue_files_token(actor=SYSTEM, cluster=row).text
        self.backend = KubernetesCluster(self.client, KubernetesSettings(**where), store_token=token)

        def backend_of(cluster: Cluster) -> Any:
            return self.backend if cluster.kind == "kubernetes" else self.world

        self.kernel = Kernel(clock=timezone.now)
        tools = DeploymentTools(backend_of=backend_of, heartbeats=lambda _names: None, agents=lambda _: None)
        for one in (
            BenchmarkReconciler(), RunReconciler(backend_of=backend_of), VersionReconciler(),
            CleanupReconciler(backend_of=backend_of), DeploymentReconciler(tools),
            ClusterReconciler(backend_of, lambda _: {}, lambda _: None),
            OptimizationReconciler(backend_of=backend_of),
        ):  # fmt: skip
            self.kernel.register(one)
        self.last = timezone.now()
        kernel = self.kernel.sweep

        def sweep(*given: Any, **named: Any) -> Any:
            now = timezone.now()
            self.api.advance((now - self.last).total_seconds())
            self.last = now
            for kubelet in self.kubelets:
                kubelet.tick()
            return kernel(*given, **named)

        self.kernel.sweep = sweep  # type: ignore[method-assign]

    def start(self, recipe: str = "local/int8-dynamic", **order: Any) -> OptimizationRun:
        return super().start(recipe, **{"cluster": "west", "place": "cluster", **order})

    def leftovers(self) -> list[str]:
        found = [*self.client.list(JOBS).items, *self.client.list(PODS, labels=OWNER).items]
        found += self.client.list(SECRETS, labels=OWNER).items
        return [one["metadata"]["name"] for one in found]


@pytest.fixture
def west(
    live_server: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, taught: Path
) -> Iterator[RecipesInCluster]:
    # The server's threads must not keep connections to a database that is about to go.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    calm = [rule for rule in validity.RULES if rule.name not in OF_THE_MACHINE]
    monkeypatch.setattr(validity, "RULES", calm)
    settings.SLIPWAY_HOME = tmp_path
    settings.SLIPWAY_JOBS_DIR = tmp_path / "jobs"
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    settings.SLIPWAY_IMPORT_ROOTS = [tmp_path / "imports", taught.parent]
    found = RecipesInCluster(tmp_path / "imports", live_server.url)
    write_items(found.root / "sets/test.jsonl", sentences(120, seed=3))
    write_items(found.root / "sets/calibration.jsonl", [f"so {one}" for one in sentences(40, seed=4)])
    found.import_version("story:taught", taught)
    found.import_version("sets:v1", found.root / "sets")
    found.run_until(lambda: Cluster.objects.get(name="west").nodes.count() == 2, seconds=30)
    yield found
    for kubelet in found.kubelets:
        kubelet.stop()


@pytest.mark.slow
def test_a_run_in_a_cluster_passes_with_its_versions_measured_there(west: RecipesInCluster) -> None:
    row = west.end(west.start(margin=5.0), seconds=560)
    assert (row.state, row.reason) == ("passed", "")
    assert {one["name"] for one in row.speed} == {"output_rate", "tpot_p50", "ttft_p50"}
    assert row.benchmark
    assert row.benchmark.cluster.name == "west"
    assert measured_on(row)
    west.run_until(lambda: not west.leftovers(), seconds=60)


def test_a_job_with_gpus_waits_for_a_benchmark_and_counts_towards_the_quota(
    west: RecipesInCluster, settings: Any
) -> None:
    cluster = Cluster.objects.get(name="west")
    assert not take(cluster, "somebody")
    row = west.start(gpus=1)
    west.run_until(
        lambda: OptimizationRun.objects.get(pk=row.pk).reason == "Waiting for somebody.", seconds=30
    )
    assert not west.leftovers()
    give_back("somebody")
    west.run_until(lambda: bool(west.client.list(PODS, labels=OWNER).items), seconds=30)
    (pod,) = west.client.list(PODS, labels=OWNER).items
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert take(cluster, "somebody") == f"{row.name} ({row.pk})"
    west.run_until(lambda: OptimizationRun.objects.get(pk=row.pk).gpu_seconds > 0, seconds=30)
    settings.SLIPWAY_BENCHMARK_GPU_HOURS = gpu_hours_used(west.team)
    with pytest.raises(Invalid, match="GPU hours"):
        west.start(gpus=1)
    west.end(cancel_run(row, actor=west.actor), seconds=60)
    assert not take(cluster, "somebody")


def test_a_token_of_a_job_reads_its_own_inputs_alone_and_while_it_works(west: RecipesInCluster) -> None:
    row = west.start()
    west.run_until(lambda: bool(west.client.list(SECRETS, labels=OWNER).items), seconds=30)
    (secret,) = west.client.list(SECRETS, labels=OWNER).items
    told = json.loads(base64.b64decode(secret["data"]["stdin"]))
    given = {"HTTP_AUTHORIZATION": f"Bearer {told['token']}"}

    def asked(path: str, **more: str) -> int:
        return int(Client().get(f"/api/v1/{path}", **given, **more).status_code)

    assert asked("optimization-job/") == 200
    other = Version.objects.get(model__name="sets")
    sha256 = other.files.get(path="calibration.jsonl").sha256
    assert asked(f"optimization-job/inputs/{row.parent_id}/{sha256}/") == 404
    content = Client().put(
        f"/api/v1/optimization-job/files/{sha256}/", b"other bytes", "application/octet-stream", **given
    )
    assert content.status_code == 400
    lost = {"path": "model.safetensors", "size": 1, "sha256": sha256}
    result = {"result": {}, "files": [lost]}
    answer = Client().put("/api/v1/optimization-job/result/", result, "application/json", **given)
    assert (answer.status_code, [*answer.json()["errors"]]) == (400, ["files"])
    west.end(cancel_run(row, actor=west.actor), seconds=60)
    assert asked("optimization-job/") == 401


def test_a_place_that_cannot_run_jobs_is_refused_by_its_field(west: RecipesInCluster) -> None:
    for wrong, field in (
        ({"cluster": "local"}, "place"),
        ({"recipe": "compressor/fp8-dynamic", "engine": "vllm"}, "place"),
        ({"place": "local", "gpus": 1}, "gpus"),
        ({"place": "moon"}, "place"),
    ):
        with pytest.raises(InvalidOptimization) as refused:
            west.start(**wrong)
        assert set(refused.value.fields) == {field}


def test_a_recipe_and_its_accuracy_check_are_jobs_of_the_cluster(west: RecipesInCluster) -> None:
    row = west.start()
    west.run_until(lambda: bool(west.client.list(PODS, labels=OWNER).items), seconds=30)
    (pod,) = west.client.list(PODS, labels=OWNER).items
    token = OptimizationJobToken.objects.get(run=row)
    assert str(token.token.pk) not in pod["spec"]["containers"][0]["command"]
    assert "limits" in pod["spec"]["containers"][0]["resources"]
    west.wait_for(row, "benchmarking", seconds=120)
    child = Version.objects.get(pk=row.child_id)
    assert (child.state, child.parent_id, child.quantization) == (
        "ready",
        row.parent_id,
        "compressed-tensors",
    )
    assert child.lineage["libraries"]["torch"]
    assert AccuracyCheck.objects.get(run=row).verdicts.get().result == "passed"
    assert not list(west.root.parent.glob("jobs/*optimization*")), "nothing ran beside the control plane"

    row = west.end(cancel_run(row, actor=west.actor), seconds=60)
    west.run_until(lambda: not west.leftovers(), seconds=30)
    assert not OptimizationJobToken.objects.filter(token__revoked_at=None).exists()
