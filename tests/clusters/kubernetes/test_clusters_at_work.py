"""Deployments on clusters with controllers and kubelets: two at once, and machines that fall silent."""

from datetime import timedelta
from typing import Any

import pytest

from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.models import Cluster, Deployment, Node, Worker
from clusters.reconcilers.clusters import ClusterReconciler
from clusters.reconcilers.deployment_steps import DeploymentTools
from clusters.reconcilers.deployments import DeploymentReconciler
from clusters.services.deployments import remove_deployment, scale_deployment
from clusters.states import DeploymentState, NodeState
from common.reconcile import Reconciler
from kube.client import KubeClient
from kube.fake.cluster import SimulatedCluster, node
from kube.fake.controllers.machines import BEHAVIOUR, SILENT
from kube.fake.transport import FakeTransport
from kube.resources import DEPLOYMENTS, NODES, Ref
from tests.cast import SYSTEM
from tests.clusters.world import Scene
from tests.images.builders import reference

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
EVICTED_AFTER_SECONDS = 400
"""Forty seconds until silence counts, and five minutes that pods tolerate it."""


class Kubernetes:
    def __init__(self, name: str) -> None:
        machines = [node(one, **{"nvidia.com/gpu": "8"}) for one in ("gpu-0", "gpu-1")]
        for one in machines:
            one["metadata"]["uid"] += f"-{name}"
        self.server = SimulatedCluster(nodes=machines)
        self.server.make("namespaces", {"metadata": {"name": "slipway"}})
        self.transport = FakeTransport(self.server)
        settings = KubernetesSettings(store_url="https://slipway.example", model_files="node_cache")
        self.backend = KubernetesCluster(KubeClient(self.transport), settings, store_token="sesame")

    def workers(self, deployment: str) -> dict[str, str]:
        """Return the machines of its pods by name; without pods that leave."""
        return {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for key, pod in self.server.storage._objects.items()
            if key.resource == "pods"
            and pod["metadata"].get("labels", {}).get("slipway.io/deployment") == deployment
            and "deletionTimestamp" not in pod["metadata"]
        }

    def autoscale(self, deployment: str, replicas: int) -> None:
        """Set the scale as another's HorizontalPodAutoscaler does."""
        client = KubeClient(FakeTransport(self.server), field_manager="kube-controller-manager")
        ref = Ref(DEPLOYMENTS, deployment, "slipway")
        client.patch(ref, {"spec": {"replicas": replicas}}, subresource="scale")

    def fall_silent(self, machine: str, *, is_silent: bool = True) -> None:
        annotations = {BEHAVIOUR: SILENT if is_silent else None}
        client = KubeClient(FakeTransport(self.server))
        client.patch(Ref(NODES, machine), {"metadata": {"annotations": annotations}})


class Clusters(Scene):
    def __init__(self) -> None:
        super().__init__()
        self.west, self.east = Kubernetes("west"), Kubernetes("east")
        self.backends = {"west": self.west, "east": self.east}
        for name in self.backends:
            Cluster.objects.create(name=name, kind="kubernetes", next_at=self.clock())

    def reconcilers(self) -> list[Reconciler[Any]]:
        def backend_of(cluster: Cluster) -> KubernetesCluster:
            return self.backends[cluster.name].backend

        tools = DeploymentTools(backend_of=backend_of, heartbeats=lambda _: None, agents=lambda _: None)
        return [DeploymentReconciler(tools), ClusterReconciler(backend_of, lambda _: {}, lambda _: None)]

    def serve(self, name: str, cluster: str, **fields: Any) -> Deployment:
        on = Cluster.objects.get(name=cluster)
        return self.deployment(name, cluster=on, service=name, image_reference=reference("worker"), **fields)

    def pass_(self, seconds: float, *, by: float = 1.0) -> None:
        self._hear()
        kernel = self.worker()
        for _ in range(int(seconds / by)):
            kernel.sweep()
            for one in self.backends.values():
                one.server.advance(by)
            self.clock.pass_(timedelta(seconds=by))
        kernel.sweep()


@pytest.fixture
def scene() -> Clusters:
    scene = Clusters()
    Cluster.objects.filter(name="local").update(next_at=None)
    return scene


def state(row: Deployment) -> str:
    row.refresh_from_db()
    return row.state


def test_what_befalls_one_cluster_is_no_matter_of_the_other(scene: Clusters) -> None:
    here, there = scene.serve("chat", "west"), scene.serve("story", "east")
    scene.pass_(40)
    assert (state(here), state(there)) == (DeploymentState.READY, DeploymentState.READY)
    assert [len(scene.west.workers(one)) for one in ("chat", "story")] == [2, 0]
    assert [len(scene.east.workers(one)) for one in ("chat", "story")] == [0, 2]
    assert Node.objects.filter(name="gpu-0").count() == 2

    scene.east.transport.reachable = False
    scale_deployment(actor=SYSTEM, name="chat", replicas=3)
    scale_deployment(actor=SYSTEM, name="story", replicas=1)
    scene.pass_(30)
    assert (state(here), len(scene.west.workers("chat"))) == (DeploymentState.READY, 3)
    assert len(scene.east.workers("story")) == 2
    machines = Node.objects.values_list("cluster__name", "state").distinct()
    assert set(machines) == {("west", NodeState.READY), ("east", NodeState.UNKNOWN)}

    scene.east.transport.reachable = True
    remove_deployment(actor=SYSTEM, name="chat", reason="Over.")
    scene.pass_(40)
    assert (state(here), scene.west.workers("chat")) == (DeploymentState.REMOVED, {})
    assert (state(there), len(scene.east.workers("story"))) == (DeploymentState.READY, 1)


def test_workers_of_a_silent_machine_come_back_elsewhere_and_are_never_too_many(scene: Clusters) -> None:
    row = scene.serve("chat", "west")
    scene.pass_(40)
    lost = next(iter(scene.west.workers("chat").values()))
    kept = "gpu-1" if lost == "gpu-0" else "gpu-0"
    scene.west.fall_silent(lost)
    scene.pass_(60)
    assert state(row) == DeploymentState.DEGRADED
    assert row.reason
    assert Node.objects.get(cluster__name="west", name=lost).state == NodeState.NOT_READY
    scene.pass_(EVICTED_AFTER_SECONDS, by=5.0)
    assert (state(row), set(scene.west.workers("chat").values())) == (DeploymentState.READY, {kept})

    scene.west.fall_silent(lost, is_silent=False)
    scene.pass_(40)
    assert (state(row), len(scene.west.workers("chat"))) == (DeploymentState.READY, 2)
    assert Worker.objects.filter(deployment=row).count() == 2


def test_replicas_that_are_left_to_others_are_followed_and_only_a_new_wish_sets_them(scene: Clusters) -> None:
    row = scene.serve("chat", "west", pod={"replicas": "external"})
    scene.pass_(40)
    assert (state(row), row.wanted_replicas, len(scene.west.workers("chat"))) == (DeploymentState.READY, 2, 2)

    scene.west.autoscale("chat", 4)
    scene.pass_(40)
    assert (state(row), row.wanted_replicas, len(scene.west.workers("chat"))) == (DeploymentState.READY, 4, 4)
    assert row.replicas_by == "kube-controller-manager"
    Deployment.objects.filter(pk=row.pk).update(applied_generation=0)
    scene.pass_(10)
    assert len(scene.west.workers("chat")) == 4, "told its wish again, it takes nothing back"

    scale_deployment(actor=SYSTEM, name="chat", replicas=3)
    scene.pass_(40)
    assert (state(row), row.wanted_replicas, len(scene.west.workers("chat"))) == (DeploymentState.READY, 3, 3)
    scene.west.autoscale("chat", 1)
    scene.pass_(40)
    assert (state(row), row.wanted_replicas, len(scene.west.workers("chat"))) == (DeploymentState.READY, 1, 1)


def test_replicas_set_past_slipway_are_obeyed_and_shown_until_a_new_wish(scene: Clusters) -> None:
    row = scene.serve("chat", "west")
    scene.pass_(40)
    scene.west.autoscale("chat", 3)
    scene.pass_(40)
    assert (state(row), row.replicas, row.wanted_replicas) == (DeploymentState.READY, 2, 3)
    assert (row.scaled_by_others, row.replicas_by) == (True, "kube-controller-manager")
    Deployment.objects.filter(pk=row.pk).update(applied_generation=0)
    scene.pass_(10)
    assert len(scene.west.workers("chat")) == 3, "told its wish again, it takes nothing back"

    scale_deployment(actor=SYSTEM, name="chat", replicas=2)
    scene.pass_(40)
    assert (state(row), row.wanted_replicas, len(scene.west.workers("chat"))) == (DeploymentState.READY, 2, 2)
    assert (row.scaled_by_others, row.replicas_by) == (False, "")
