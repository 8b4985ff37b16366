"""Graphs as RayJobs and RayServices, on a fake API server with KubeRay's and Kueue's kinds.

Tests write the status that their operators publish.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from graphs.backends.kuberay import KubeRay, RayObservation, RayState
from graphs.backends.ray_objects import QUEUE_LABEL, RayOrder, RayPods, worker_pods
from graphs.errors import RayOrderInvalid
from kube.client import KubeClient
from kube.fake.kinds import ObjectKind
from kube.fake.kueue import kueue
from kube.fake.ray import kuberay
from kube.fake.server import FakeApiServer
from kube.fake.transport import FakeTransport
from kube.resources import RAY_JOBS, RAY_SERVICES, WORKLOADS, Ref
from serving.graphs.plan import GraphPlan, TaskPlan
from serving.graphs.ray.environment import environment
from serving.graphs.ray.sizes import PLAN_VARIABLE, RAY_VERSION
from tests.graphs.world import description

pytestmark = pytest.mark.any_database
GRAPH = description()
PLAN = GraphPlan(
    tasks={
        "Decode": TaskPlan(replicas=2),
        "Ocr": TaskPlan(replicas=3, max_size=8, threads=3, device="cuda", gpus=(0, 1)),
        "Inpaint": TaskPlan(replicas=1, max_size=4, threads=2, device="cuda", gpus=(1,)),
        "Compose": TaskPlan(replicas=1),
    }
)
ORDER = RayOrder(
    name="translate-1",
    namespace="default",
    graph=GRAPH,
    plan=PLAN,
    image="registry.example/graph:1",
    file="/app/translate.py",
    pods=RayPods(cores=4, memory_gib=16, gpus=1),
    source="/data/pictures",
    out="/data/my results",
    volumes={"/data": "pictures"},
)


EVERY_KIND = (*kuberay(), *kueue())


class World:
    def __init__(self, kinds: Sequence[ObjectKind] = EVERY_KIND) -> None:
        server = FakeApiServer()
        for kind in kinds:
            server.add_kind(kind)
        self.transport = FakeTransport(server)
        self.client = KubeClient(self.transport)
        self.ray = KubeRay(self.client, "default")

    def queue(self, name: str) -> None:
        self._create("LocalQueue", {"name": name, "namespace": "default"}, {"clusterQueue": "gpus"})

    def _create(self, kind: str, metadata: Any, spec: Any) -> None:
        of_kueue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}
        self.client.create({**of_kueue, "metadata": metadata, "spec": spec})

    def job(self) -> Any:
        return self.client.get(Ref(RAY_JOBS, ORDER.name, "default"))

    def publish(self, resource: Any, **status: Any) -> RayObservation:
        self.client.patch(Ref(resource, ORDER.name, "default"), {"status": status}, subresource="status")
        return self.ray.observe(ORDER.name, is_job=resource is RAY_JOBS)

    def wait_in_queue(self, message: str) -> RayObservation:
        """Kueue's workload of the job says why it waits."""
        job = self.job()
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "name": ORDER.name,
            "uid": job["metadata"]["uid"],
        }
        metadata = {"name": "rayjob-1", "namespace": "default", "ownerReferences": [owner]}
        api_version = "kueue.x-k8s.io/v1beta2"
        spec = {"queueName": "team-a"}
        self.client.create(
            {"apiVersion": api_version, "kind": "Workload", "metadata": metadata, "spec": spec}
        )
        conditions = [condition("QuotaReserved", "False", "Pending", message)]
        status = {"status": {"conditions": conditions}}
        self.client.patch(Ref(WORKLOADS, "rayjob-1", "default"), status, subresource="status")
        return self.publish(RAY_JOBS, jobDeploymentStatus="Suspended")


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    at = "2026-11-27T08:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def test_a_job_has_the_plans_sizes_fixed_and_its_command() -> None:
    world = World()
    world.ray.submit(ORDER)
    spec = world.job()["spec"]
    command = shlex.split(spec["entrypoint"])
    assert command[-4:] == ["/app/translate.py", "/data/pictures", "--out=/data/my results", "--address=auto"]
    variables = json.loads(spec["runtimeEnvYAML"])["env_vars"]
    assert GraphPlan.parse(json.loads(variables[PLAN_VARIABLE]), GRAPH).tasks == PLAN.tasks
    cluster = spec["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    assert cluster["enableInTreeAutoscaling"] is False
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == worker_pods(ORDER) == 4
    (container,) = workers["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert {"name": "claim-0", "mountPath": "/data"} in container["volumeMounts"]
    assert not spec["suspend"]
    assert QUEUE_LABEL not in world.job()["metadata"]["labels"]
    assert world.ray.running("translate") == [(ORDER.name, True)]
    world.ray.submit(ORDER)


def test_a_process_larger_than_a_pod_is_refused() -> None:
    with pytest.raises(RayOrderInvalid, match=r"Ocr needs 3 cores and 0\.5 GPUs; a pod has 2 and 1"):
        World().ray.submit(replace(ORDER, pods=RayPods(cores=2, memory_gib=8, gpus=1)))


def test_a_cluster_without_kuberay_or_without_the_queue_refuses_the_order() -> None:
    with pytest.raises(RayOrderInvalid, match="KubeRay is not installed"):
        World(kinds=()).ray.submit(ORDER)
    queued = replace(ORDER, queue="team-a")
    with pytest.raises(RayOrderInvalid, match="Kueue is not installed"):
        World(kinds=kuberay()).ray.submit(queued)
    world = World()
    world.queue("team-b")
    with pytest.raises(RayOrderInvalid, match="no queue team-a; there are team-b"):
        world.ray.submit(queued)


def test_a_queued_job_says_what_its_queue_lacks() -> None:
    world = World()
    world.queue("team-a")
    world.ray.submit(replace(ORDER, queue="team-a"))
    assert world.job()["spec"]["suspend"] is True
    seen = world.ray.observe(ORDER.name, is_job=True)
    assert seen.reason == "Kueue has not seen it yet; its queue is team-a."
    message = "couldn't assign flavors to pod set tasks: insufficient unused quota for nvidia.com/gpu"
    seen = world.wait_in_queue(message)
    assert (seen.state, seen.reason) == (RayState.QUEUED, f"It waits in the queue team-a: {message}.")


JOBS: list[tuple[dict[str, Any], RayState, str]] = [
    ({"jobDeploymentStatus": "Initializing"}, RayState.STARTING, "Its Ray cluster is being made."),
    (
        {
            "jobDeploymentStatus": "Initializing",
            "rayClusterStatus": {
                "conditions": [condition("HeadPodReady", "True", "HeadPodRunningAndReady")],
                "desiredWorkerReplicas": 4,
                "readyWorkerReplicas": 1,
            },
        },
        RayState.STARTING,
        "1 of 4 pods of its Ray cluster are ready.",
    ),
    (
        {
            "jobDeploymentStatus": "Initializing",
            "rayClusterStatus": {
                "conditions": [condition("ReplicaFailure", "True", "FailedCreatePod", "exceeded quota: gpus")]
            },
        },
        RayState.STARTING,
        "Its Ray cluster cannot make a pod: exceeded quota: gpus.",
    ),
    ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, RayState.RUNNING, ""),
    ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, RayState.DONE, ""),
    ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, RayState.FAILED, "Ray's job is stopped."),
    (
        {
            "jobDeploymentStatus": "Failed",
            "reason": "AppFailed",
            "message": "Job entrypoint command failed\n",
        },
        RayState.FAILED,
        "The graph's run ended with an error: Job entrypoint command failed.",
    ),
]


@pytest.mark.parametrize(
    ("status", "state", "reason"), JOBS, ids=[f"{one[1]}-{at}" for at, one in enumerate(JOBS)]
)
def test_the_status_of_a_job_is_told_in_words(status, state, reason) -> None:
    world = World()
    world.ray.submit(ORDER)
    assert world.publish(RAY_JOBS, **status) == RayObservation(state, reason)


def test_a_service_serves_the_graph_and_names_the_task_that_does_not_start() -> None:
    world = World()
    world.ray.submit(replace(ORDER, source="", out=""))
    service = world.client.get(Ref(RAY_SERVICES, ORDER.name, "default"))
    (application,) = json.loads(service["spec"]["serveConfigV2"])["applications"]
    assert application["import_path"] == "serving.graphs.ray.online:application"
    assert GraphPlan.parse(json.loads(application["args"]["plan"]), GRAPH).tasks == PLAN.tasks
    deployment = {"status": "UNHEALTHY", "message": "no file 'weights'"}
    failed = {"status": "DEPLOY_FAILED", "serveDeploymentStatuses": {"Ocr": deployment}}
    seen = world.publish(
        RAY_SERVICES,
        conditions=[condition("Ready", "False", "ZeroServeEndpoints")],
        pendingServiceStatus={"rayClusterName": "a", "applicationStatuses": {"translate": failed}},
    )
    assert seen == RayObservation(
        RayState.FAILED, "Ray Serve does not serve translate: Ocr: no file 'weights'."
    )
    ready = [condition("Ready", "True", "NonZeroServeEndpoints")]
    seen = world.publish(RAY_SERVICES, conditions=ready, pendingServiceStatus=None)
    assert seen == RayObservation(RayState.RUNNING)


def test_an_aborted_job_is_gone_and_aborted_again_is_no_error() -> None:
    world = World()
    world.ray.submit(ORDER)
    world.ray.abort(ORDER.name, is_job=True)
    assert world.ray.observe(ORDER.name, is_job=True).state is RayState.GONE
    world.ray.abort(ORDER.name, is_job=True)


def test_rays_version_is_that_of_its_lock() -> None:
    lines = environment().lock.splitlines()
    assert any(line.startswith(f"ray=={RAY_VERSION} ") for line in lines)
    assert all(" --hash=sha256:" in line for line in lines)
