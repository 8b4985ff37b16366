"""Progress of a pod's model files, from the container that fetches to pages."""

from typing import Any

from clusters.backends.base import FilesFetch
from common.fence import Fence
from kube.resources import PODS, Ref
from model_store.fetch_progress import FetchProgress
from tests.clusters.kubernetes.test_backend import World
from tests.clusters.kubernetes.test_manifests import SPEC

LINE = FetchProgress("story:v2", 4_000_000_000, 15_000_000_000, 500_000_000).line()


def fetching_pod(world: World, name: str = "chat-v2-0-a") -> Ref:
    """A pod of the deployment whose container for its files runs on a machine."""
    world.cluster.apply(SPEC, fence=Fence(1, 1))
    template: dict[str, Any] = world.deployment()["spec"]["template"]
    metadata = {"name": name, "namespace": "slipway", "labels": template["metadata"]["labels"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    world.client.create(pod | {"spec": template["spec"] | {"nodeName": "gpu-7"}})
    ref = Ref(PODS, name, "slipway")
    running = {"state": {"running": {"startedAt": "2026-11-22T08:00:00Z"}}}
    status = {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "initContainerStatuses": [
            {"name": "model-files", "image": "i", "imageID": "", "ready": False, "restartCount": 0} | running
        ],
    }
    world.client.patch(ref, {"status": status}, subresource="status")
    return ref


def test_a_pod_that_fetches_its_files_says_how_far_they_have_come_to_its_machine() -> None:
    world = World()
    ref = fetching_pod(world)
    world.server.logs["slipway", ref.name, "model-files"] = f"Trying again in 1.0 s.\n{LINE}\n"
    (worker,) = world.cluster.observe(SPEC.name)
    assert worker.reason == "Its model files are being fetched to its machine."
    assert worker.fetch == FilesFetch(
        place="gpu-7",
        come_bytes=4_000_000_000,
        size_bytes=15_000_000_000,
        bytes_per_second=500_000_000,
    )


def test_a_machine_that_gives_no_log_is_no_failure_of_the_cluster() -> None:
    world = World()
    fetching_pod(world)
    (worker,) = world.cluster.observe(SPEC.name)
    assert (worker.fetch, worker.state) == (None, "starting")


def test_a_worker_that_runs_is_asked_for_no_log() -> None:
    world = World()
    ref = fetching_pod(world)
    world.server.logs["slipway", ref.name, "model-files"] = LINE
    ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    pod = world.client.get(ref)
    (container,) = pod["status"]["initContainerStatuses"]
    world.client.patch(
        ref, {"status": {"initContainerStatuses": [container | {"state": ended}]}}, subresource="status"
    )
    (worker,) = world.cluster.observe(SPEC.name)
    assert worker.fetch is None
