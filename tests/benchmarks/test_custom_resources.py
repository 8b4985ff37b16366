"""Benchmarks that custom resources of a cluster order."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from accounts.models import User
from benchmarks.models import Benchmark, BenchmarkRun
from benchmarks.reconcilers.custom_resources import ResourcesReconciler
from benchmarks.services import cancel_benchmark
from benchmarks.states import BenchmarkState
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster
from common.reconcile import Reconciler
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.kinds import BUILT_IN, ObjectKind
from kube.fake.schema import of_definition
from kube.fake.transport import FakeTransport
from kube.resources import BENCHMARKS, Ref
from tests.benchmarks.conftest import SCENARIO
from tests.benchmarks.test_kubernetes import GPU, WHERE, KubernetesBenchmarks

pytestmark = pytest.mark.any_database

DEFINITION = Path(__file__).parents[2] / "deploy/benchmarks/definition.yaml"
NAMESPACE = "slipway"


def defined() -> ObjectKind:
    """Return the kind as a cluster has it that applied our definition."""
    definition = yaml.safe_load(DEFINITION.read_text())
    names, (version,) = definition["spec"]["names"], definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    return ObjectKind(
        definition["spec"]["group"], version["name"], names["kind"], names["plural"],
        shape=of_definition(schema), subresources=frozenset({"status"}), has_generation=True,
        is_custom=True, openapi=schema,
    )  # fmt: skip


class ResourcesOfBenchmarks(KubernetesBenchmarks):
    def reconcilers(self) -> list[Reconciler[Any]]:
        def backend_of(cluster: Cluster) -> Any:
            return self.backend if cluster.name == "west" else self.world

        return [*super().reconcilers(), ResourcesReconciler(backend_of=backend_of)]

    def serve_benchmarks(self) -> None:
        """Let the cluster have the definition."""
        self.server = SimulatedCluster(
            nodes=[node("a100", labels={"gpu": "a100"}, **GPU), node("plain")], kinds=(*BUILT_IN, defined())
        )
        self.server.make("namespaces", {"metadata": {"name": NAMESPACE}})
        self.client = KubeClient(FakeTransport(self.server))
        settings = KubernetesSettings(**WHERE, model_files="node_cache")
        self.backend = KubernetesCluster(self.client, settings, store_token="sesame")
        self.pass_(5)

    def wish(self, name: str = "slots", **spec: Any) -> None:
        benchmark = {"versions": ["story:v1"], "repeats": 1, "space": {"engines": ["echo"]}}
        self.client.create(
            {
                "apiVersion": BENCHMARKS.api_version,
                "kind": "Benchmark",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"team": self.team.name, "scenario": SCENARIO, "benchmark": benchmark, **spec},
            }
        )
        self.pass_(12)

    def status(self, name: str = "slots") -> dict[str, Any]:
        return dict(self.client.get(Ref(BENCHMARKS, name, NAMESPACE)).get("status") or {})

    def condition(self, kind: str) -> dict[str, Any]:
        (found,) = [one for one in self.status()["conditions"] if one["type"] == kind]
        return dict(found)


@pytest.fixture
def scene(db: None, tmp_path: Path, settings: Any) -> ResourcesOfBenchmarks:
    settings.SLIPWAY_STORE_DIR = tmp_path / "models"
    found = ResourcesOfBenchmarks()
    found.serve_benchmarks()
    settings.SLIPWAY_BENCHMARK_RESOURCES_AS = "ada"
    return found


def test_a_resource_orders_one_benchmark_and_tells_how_it_does(scene: ResourcesOfBenchmarks) -> None:
    scene.wish(description="from the cluster")
    row = Benchmark.objects.get()
    assert (row.name, row.created_by, row.cluster.name) == ("slots", "ada", "west")
    assert (scene.status()["benchmark"], scene.status()["state"]) == (row.pk, "running")
    assert scene.condition("Accepted")["status"] == "True"
    ended = scene.condition("Ended")
    assert (ended["status"], ended["observedGeneration"]) == ("False", 1)
    scene.pass_(30)
    assert Benchmark.objects.count() == 1
    assert scene.condition("Ended") == ended, "nothing is written that has not changed"

    scene.client.patch(Ref(BENCHMARKS, "slots", NAMESPACE), {"spec": {"scenario": {"rates": [7]}}})
    scene.pass_(12)
    assert "without effect" in scene.condition("Accepted")["message"]
    assert scene.status()["observedGeneration"] == 1
    cancel_benchmark(row, actor=scene.actor, reason="Enough.")
    scene.until(lambda: scene.ended(row) and scene.status()["state"] == "cancelled")
    assert scene.condition("Ended")["status"] == "True"
    assert scene.condition("Ended")["lastTransitionTime"] > ended["lastTransitionTime"]


def test_a_refused_order_says_why_and_is_tried_again_when_it_changes(scene: ResourcesOfBenchmarks) -> None:
    scene.wish(scenario={**SCENARIO, "rates": []})
    accepted = scene.condition("Accepted")
    assert (accepted["status"], accepted["reason"]) == ("False", "Refused")
    assert "scenario.rates" in accepted["message"]
    assert not Benchmark.objects.exists()
    scene.client.patch(Ref(BENCHMARKS, "slots", NAMESPACE), {"spec": {"scenario": SCENARIO}})
    scene.pass_(12)
    assert scene.condition("Accepted")["status"] == "True"
    assert scene.status()["observedGeneration"] == 2


def test_who_may_not_benchmark_orders_nothing_by_a_resource(scene: ResourcesOfBenchmarks) -> None:
    User.objects.get(username="ada").memberships.all().delete()
    scene.wish()
    assert scene.condition("Accepted")["status"] == "False"
    assert not Benchmark.objects.exists()


def test_a_benchmark_whose_resource_is_deleted_is_cancelled(scene: ResourcesOfBenchmarks) -> None:
    scene.wish()
    row = Benchmark.objects.get()
    scene.client.delete(Ref(BENCHMARKS, "slots", NAMESPACE))
    scene.until(lambda: scene.ended(row) and not scene.leftovers())
    assert row.state == BenchmarkState.CANCELLED
    assert not BenchmarkRun.objects.exclude(state__in=("cancelled", "failed")).exists()


def test_nothing_is_read_unless_a_setting_names_an_account(
    scene: ResourcesOfBenchmarks, settings: Any
) -> None:
    settings.SLIPWAY_BENCHMARK_RESOURCES_AS = ""
    scene.wish()
    assert not Benchmark.objects.exists()
    assert not scene.status()
