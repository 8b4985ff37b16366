"""Model files come to machines of a cluster before workers do, by Jobs that ask for no GPU."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.backends.base import CannotRun, FilesPending, StaleDeploymentFence
from clusters.backends.kubernetes.files.prefetch import MOST_JOBS
from clusters.backends.servers import ModelServer
from common.fence import Fence
from kube.fake.cluster import node
from kube.fake.transport import OnlyAt
from kube.resources import DEPLOYMENTS, JOBS, PODS, Ref
from serving.fetch.__main__ import command_line as fetch_command_line
from tests.clusters.kubernetes.files_world import DIGEST, STORY, FilesWorld

EARLY = replace(STORY, replicas=0, prefetch_machines=0)
GPUS = {"nvidia.com/gpu": "4"}


@pytest.fixture
def world() -> FilesWorld:
    """Two machines with GPUs, one of them kept for those who ask for them, and one without."""
    world = FilesWorld()
    labels = {"nvidia.com/gpu.product": "H100"}
    kept = [{"key": "nvidia.com/gpu", "effect": "NoSchedule", "value": "present"}]
    for name, more, taints in (("gpu-1", GPUS, []), ("gpu-2", GPUS, kept), ("cpu-1", {}, [])):
        made = node(name, labels=labels if more else {}, **more)
        world.server.plant("nodes", made | {"spec": {"taints": taints}})
    return world


def end(world: FilesWorld, machine: str, kind: str = "Complete", at: str = "2026-11-22T08:00:00Z") -> None:
    """Its last Job."""
    (*_, job) = (
        one for one in world.items(JOBS) if one["metadata"]["annotations"]["slipway.io/node"] == machine
    )
    first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [
        {"type": one, "status": "True", "lastProbeTime": at, "lastTransitionTime": at}
        for one in (first, kind)
    ]
    done: dict[str, Any] = {"completionTime": at, "succeeded": 1} if kind == "Complete" else {"failed": 3}
    status = {"startTime": at, "conditions": conditions} | done
    world.client.patch(
        Ref(JOBS, job["metadata"]["name"], "slipway"), {"status": status}, subresource="status"
    )


def machines(world: FilesWorld) -> list[str]:
    return sorted(one["metadata"]["annotations"]["slipway.io/node"] for one in world.items(JOBS))


def test_every_machine_that_could_run_the_workers_fetches_and_no_other(world: FilesWorld) -> None:
    with pytest.raises(FilesPending) as told:
        world.apply(spec=EARLY)
    assert machines(world) == ["gpu-1", "gpu-2"]
    assert [one.place for one in told.value.fetches] == ["gpu-1", "gpu-2"]
    for job in world.items(JOBS):
        pod = job["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"] == {}
        assert {"key": "nvidia.com/gpu", "operator": "Exists"} in pod["tolerations"]
        assert f"--digest={DIGEST}" in pod["containers"][0]["command"]
        assert fetch_command_line().parse_args(pod["containers"][0]["command"][3:])


def test_when_all_have_them_the_wish_is_fulfilled_and_no_pod_is_wanted(world: FilesWorld) -> None:
    for machine in ("gpu-1", "gpu-2"):
        with pytest.raises(FilesPending):
            world.apply(spec=EARLY)
        end(world, machine)
    world.apply(spec=EARLY)
    (made,) = world.items(DEPLOYMENTS)
    assert made["spec"]["replicas"] == 0


def test_as_many_machines_as_are_asked_for_and_always_the_same(world: FilesWorld) -> None:
    for _ in range(3):
        with pytest.raises(FilesPending):
            world.apply(spec=replace(EARLY, prefetch_machines=1))
    assert machines(world) == ["gpu-1"]


def test_the_jobs_go_when_workers_begin_and_with_the_deployment(world: FilesWorld) -> None:
    with pytest.raises(FilesPending):
        world.apply(spec=EARLY)
    (owner,) = {one["metadata"]["ownerReferences"][0]["name"] for one in world.items(JOBS)}
    assert owner == STORY.name
    world.apply(spec=replace(EARLY, replicas=2), turn=2)
    assert all("deletionTimestamp" in one["metadata"] for one in world.items(JOBS))


def test_jobs_that_come_when_workers_have_begun_go_at_the_next_tidying(world: FilesWorld) -> None:
    sleeper, transport = world.writer()
    woken = OnlyAt(1, lambda _: world.apply(spec=replace(EARLY, replicas=2), turn=2))
    transport.faults.append(lambda call: woken(call) if call.path.endswith("/jobs") else None)
    with pytest.raises(FilesPending):
        sleeper.apply(EARLY, fence=Fence(1, 1))
    assert machines(world) == ["gpu-1", "gpu-2"]
    world.cluster.tidy(())
    assert all("deletionTimestamp" in one["metadata"] for one in world.items(JOBS))


def test_jobs_stay_while_no_worker_has_begun(world: FilesWorld) -> None:
    with pytest.raises(FilesPending):
        world.apply(spec=EARLY)
    world.cluster.tidy(())
    assert not any("deletionTimestamp" in one["metadata"] for one in world.items(JOBS))


def fail_for_good(world: FilesWorld, *machines: str, spec: Any = EARLY) -> None:
    for _ in range(MOST_JOBS):
        with pytest.raises(FilesPending):
            world.apply(spec=spec)
        for machine in machines:
            end(world, machine, "Failed")


def test_a_machine_to_which_they_do_not_come_tries_again_and_says_why(world: FilesWorld) -> None:
    with pytest.raises(FilesPending):
        world.apply(spec=EARLY)
    end(world, "gpu-1")
    end(world, "gpu-2", "Failed", at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    with pytest.raises(FilesPending, match="Not yet to gpu-2: its Job failed") as told:
        world.apply(spec=EARLY)
    assert [bool(one.problem) for one in told.value.fetches] == [False, True]
    assert machines(world) == ["gpu-1", "gpu-2"], "not at once"
    end(world, "gpu-2", "Failed")
    for _ in range(2):
        with pytest.raises(FilesPending, match="Not yet to gpu-2: its Job failed"):
            world.apply(spec=EARLY)
    assert machines(world) == ["gpu-1", "gpu-2", "gpu-2"]
    end(world, "gpu-2")
    world.apply(spec=EARLY)


def test_one_machine_without_them_holds_up_no_others_and_all_of_them_do(world: FilesWorld) -> None:
    fail_for_good(world, "gpu-2")
    end(world, "gpu-1")
    world.apply(spec=EARLY)
    nowhere = FilesWorld()
    nowhere.server.plant("nodes", node("gpu-1", **GPUS))
    fail_for_good(nowhere, "gpu-1")
    with pytest.raises(CannotRun, match="Its files do not come to gpu-1: its Job failed"):
        nowhere.apply(spec=EARLY)


def test_another_machine_takes_the_place_of_one_to_which_they_do_not_come(world: FilesWorld) -> None:
    one = replace(EARLY, prefetch_machines=1)
    fail_for_good(world, "gpu-1", spec=one)
    with pytest.raises(FilesPending):
        world.apply(spec=one)
    end(world, "gpu-2")
    world.apply(spec=one)


def test_machines_are_not_listed_at_every_look(world: FilesWorld) -> None:
    for _ in range(4):
        with pytest.raises(FilesPending):
            world.apply(spec=EARLY)
    assert len([one for one in world.transport.calls if one.path == "/api/v1/nodes"]) == 1


def test_where_no_machine_could_run_them_it_is_said() -> None:
    world = FilesWorld()
    world.server.plant("nodes", node("cpu-1"))
    with pytest.raises(CannotRun, match="No machine that is ready could run workers of chat-v2-0"):
        world.apply(spec=EARLY)


def of_one_copy(machine: dict[str, Any], **settings: Any) -> FilesWorld:
    """All machines read a claim, which is full."""
    world = FilesWorld(model_files="filled_claim", **settings)
    world.server.plant("nodes", machine)
    world.storage_class("shared", "efs.csi.aws.com")
    with pytest.raises(FilesPending, match="brought to the volume claim"):
        world.apply(spec=EARLY)
    world.end_job("Complete")
    return world


def test_where_all_machines_read_one_copy_they_pull_the_image_when_that_is_full() -> None:
    world = of_one_copy(node("gpu-1", **GPUS))
    with pytest.raises(FilesPending, match="Its image is being pulled by machines"):
        world.apply(spec=EARLY)
    (job,) = world.items(JOBS)
    pod = job["spec"]["template"]["spec"]
    assert [(one["name"], one["image"], one["command"]) for one in pod["containers"]] == [
        ("image", EARLY.image, ["true"])
    ]
    assert not pod.get("volumes")
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "gpu-1"}
    end(world, "gpu-1")
    world.apply(spec=EARLY)


def test_a_server_of_another_maker_has_its_image_pulled_beside_its_files(world: FilesWorld) -> None:
    world.settings = replace(world.settings, jobs_image=f"registry.example/jobs@sha256:{'1' * 64}")
    world.cluster, world.transport = world.writer()
    server = ModelServer(port=8000, health_path="/health")
    with pytest.raises(FilesPending):
        world.apply(spec=replace(EARLY, server=server))
    for job in world.items(JOBS):
        images = {one["name"]: one["image"] for one in job["spec"]["template"]["spec"]["containers"]}
        assert images == {"model-files": world.settings.jobs_image, "image": EARLY.image}


@pytest.mark.parametrize(
    ("labels", "settings", "acceleration", "pulls"),
    [
        ({}, {}, "lazy-soci", True),
        ({"slipway.io/image-loading": "lazy-soci"}, {}, "lazy-soci", False),
        ({"slipway.io/image-loading": "lazy-soci"}, {}, "", True),
        ({}, {"image_loading": "lazy-nydus"}, "lazy-nydus", False),
        ({}, {"image_loading": "p2p-spegel"}, "", True),
        ({}, {"image_loading": "node-image"}, "", False),
        ({"cloud.google.com/gke-image-streaming": "true"}, {}, "", False),
    ],
)
def test_an_image_is_not_pulled_where_it_loads_lazily_or_lies_on_the_machines(
    labels: dict[str, str], settings: dict[str, str], acceleration: str, pulls: bool
) -> None:
    world = of_one_copy(node("gpu-1", labels=labels, **GPUS), **settings)
    spec = replace(EARLY, image_acceleration=acceleration)
    if pulls:
        with pytest.raises(FilesPending):
            world.apply(spec=spec)
    else:
        world.apply(spec=spec)
    assert bool(world.items(JOBS)) == pulls


def test_an_image_without_the_program_that_the_job_runs_was_pulled_all_the_same() -> None:
    world = of_one_copy(node("gpu-1", **GPUS))
    with pytest.raises(FilesPending):
        world.apply(spec=EARLY)
    (job,) = world.items(JOBS)
    template = job["spec"]["template"]
    metadata = {"name": "pull-0", "namespace": "slipway"} | template["metadata"]
    spec = template["spec"] | {"nodeName": "gpu-1"}
    world.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    ended = {"exitCode": 128, "reason": "StartError", "message": 'exec: "true": executable file not found'}
    container = {"name": "image", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [container | {"state": {"terminated": ended}}]}
    world.client.patch(Ref(PODS, "pull-0", "slipway"), {"status": status}, subresource="status")
    end(world, "gpu-1", "Failed")
    world.apply(spec=EARLY)


def test_a_late_prefetch_of_a_deployment_that_is_gone_makes_nothing(world: FilesWorld) -> None:
    with pytest.raises(FilesPending):
        world.apply(spec=EARLY)
    for job in world.items(JOBS):
        world.client.delete(Ref(JOBS, job["metadata"]["name"], "slipway"))
    world.cluster.remove(STORY.name, fence=Fence(1, 9))
    with pytest.raises(StaleDeploymentFence):
        world.apply(spec=EARLY, turn=2)
    assert world.items(JOBS) == []
