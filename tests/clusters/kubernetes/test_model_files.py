"""Each delivery of files to pods on a fake API server, and what they share."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from clusters.backends.base import (
    BackendError,
    CannotRun,
    ClusterUnreachable,
    FilesFetch,
    FilesPending,
)
from common.fence import Fence
from kube.fake.transport import OnlyAt, after_doing, failing, pausing
from kube.fake.wire import ADMIN
from kube.resources import DEPLOYMENTS, JOBS, VOLUME_CLAIMS, Ref
from serving.fetch.__main__ import command_line as fetch_command_line
from tests.clusters.kubernetes.files_world import DIGEST, GB, NAME, STORY, FilesWorld


def node_cache() -> FilesWorld:
    return FilesWorld(model_files="node_cache")


def claim() -> FilesWorld:
    world = FilesWorld(model_files="claim")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "slipway-models", "namespace": "slipway"}
    world.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    return world


def filled_claim() -> FilesWorld:
    world = FilesWorld(model_files="filled_claim")
    world.storage_class("shared", "efs.csi.aws.com")
    return world


def nothing_more(world: FilesWorld) -> None:
    """Files come with the pods."""


def fill(world: FilesWorld) -> None:
    if world.items(JOBS):
        world.end_job("Complete")


Way = tuple[Callable[[], FilesWorld], Callable[[FilesWorld], None]]
WAYS: dict[str, Way] = {
    "node_cache": (node_cache, nothing_more),
    "claim": (claim, nothing_more),
    "filled_claim": (filled_claim, fill),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


def brought(way: Way) -> FilesWorld:
    """Return a world with the deployment's objects."""
    make, bring = way
    world = make()
    for _ in range(4):
        try:
            world.apply()
        except FilesPending:
            bring(world)
            continue
        return world
    raise AssertionError("The files never came.")


def test_the_worker_reads_its_version_and_may_not_write_to_it(way: Way) -> None:
    pod = brought(way).pod_spec()
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "models")
    assert mount["readOnly"] is True
    (volume,) = (one for one in pod["volumes"] if one["name"] == "models")
    is_ours_alone = volume.get("persistentVolumeClaim", {}).get("claimName") == NAME
    assert is_ours_alone or mount["subPath"] == f"versions/{DIGEST}"


def test_no_pod_is_wanted_before_its_files_can_be_read(way: Way) -> None:
    make, _ = way
    world = make()
    try:
        world.apply()
    except FilesPending:
        assert world.items(DEPLOYMENTS) == []
    else:
        assert len(world.items(DEPLOYMENTS)) == 1


def test_asking_again_makes_nothing_twice(way: Way) -> None:
    world = brought(way)
    made = {str(one): len(world.items(one)) for one in (VOLUME_CLAIMS, JOBS, DEPLOYMENTS)}
    world.apply(turn=2)
    assert {str(one): len(world.items(one)) for one in (VOLUME_CLAIMS, JOBS, DEPLOYMENTS)} == made


@pytest.mark.parametrize("answered", [True, False])
def test_wherever_an_answer_is_lost_the_files_come_once(way: Way, answered: bool) -> None:
    """`answered`: the server says that it failed; otherwise it did it, and the answer is lost."""
    make, bring = way
    at = 0
    while True:
        at += 1
        world = make()
        fault = OnlyAt(
            at,
            failing(503, "etcdserver: leader changed", reason="ServiceUnavailable")
            if answered
            else after_doing(world.server, ADMIN),
        )
        world.transport.faults.append(fault)
        for _ in range(6):
            try:
                world.apply()
                break
            except ClusterUnreachable:
                continue
            except FilesPending:
                bring(world)
        else:
            raise AssertionError(f"The files never came with a fault at call {at}.")
        assert len(world.items(DEPLOYMENTS)) == 1, at
        assert len([one for one in world.items(VOLUME_CLAIMS) if one["metadata"]["name"] == NAME]) <= 1
        if not fault.is_over:
            return


def test_why_it_is_this_way_is_said_of_the_deployment(way: Way) -> None:
    world = brought(way)
    assert world.cluster.files_reason(STORY).endswith(": the cluster's settings say so.")


# Volume claims that a Job fills.


def test_a_claim_has_room_for_its_version_and_the_job_writes_where_pods_will_look() -> None:
    world = filled_claim()
    with pytest.raises(FilesPending, match="brought to the volume claim slipway-files-"):
        world.apply()
    (made,) = world.items(VOLUME_CLAIMS)
    assert made["spec"]["resources"]["requests"]["storage"] == "16Gi"
    assert (made["spec"]["accessModes"], made["spec"]["storageClassName"]) == (["ReadWriteMany"], "shared")
    (job,) = world.items(JOBS)
    assert job["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    pod = job["spec"]["template"]["spec"]
    told = fetch_command_line().parse_args(pod["containers"][0]["command"][3:])
    assert (told.digest, str(told.cache)) == (DIGEST, pod["containers"][0]["volumeMounts"][0]["mountPath"])
    assert pod["containers"][0]["resources"] == {}  # and so no GPU
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_how_far_a_claim_is_filled_is_told_with_its_rate() -> None:
    world = filled_claim()
    with pytest.raises(FilesPending):
        world.apply()
    world.fetched(world.job_pod(), 4 * GB, 250_000_000)
    with pytest.raises(FilesPending) as told:
        world.apply()
    assert told.value.fetches == (
        FilesFetch(
            place=f"claim {NAME}", come_bytes=4 * GB, size_bytes=15 * GB, bytes_per_second=250_000_000
        ),
    )


def test_a_claim_that_is_not_provided_says_what_its_provisioner_says() -> None:
    world = filled_claim()
    with pytest.raises(FilesPending):
        world.apply()
    (made,) = world.items(VOLUME_CLAIMS)
    world.client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "no-room", "namespace": "slipway"},
            "involvedObject": {
                "kind": "PersistentVolumeClaim",
                "name": NAME,
                "namespace": "slipway",
                "uid": made["metadata"]["uid"],
            },
            "type": "Warning",
            "reason": "ProvisioningFailed",
            "message": "the file system quota is used up",
        }
    )
    with pytest.raises(FilesPending, match="It is not provided: the file system quota is used up"):
        world.apply()


def test_a_job_that_failed_says_why_and_is_tried_again_later() -> None:
    world = filled_claim()
    with pytest.raises(FilesPending):
        world.apply()
    world.job_pod(phase="Failed", exit_code=4, said="serving.fetch: The volume is full.")
    just_now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.end_job("Failed", message="BackoffLimitExceeded", at=just_now)
    with pytest.raises(CannotRun, match=r"could not be filled: .* exit status 4: .*The volume is full\."):
        world.apply()
    (failed,) = world.items(JOBS)
    ref = Ref(JOBS, failed["metadata"]["name"], "slipway")
    conditions = [
        one | {"lastTransitionTime": "2026-11-22T08:00:00Z"} for one in failed["status"]["conditions"]
    ]
    world.client.patch(ref, {"status": {"conditions": conditions}}, subresource="status")
    with pytest.raises(FilesPending, match="tried again"):
        world.apply()
    assert world.items(JOBS) == []


def test_a_full_claim_needs_its_job_no_more() -> None:
    world = brought(WAYS["filled_claim"])
    assert world.items(JOBS) == []
    world.apply(turn=2)
    assert world.items(JOBS) == []


def test_where_many_may_only_read_one_writes_before() -> None:
    world = FilesWorld(model_files="filled_claim", storage_class="ml", claim_access_mode="ReadOnlyMany")
    world.storage_class("ml", "pd.csi.storage.gke.io")
    with pytest.raises(FilesPending):
        world.apply()
    (made,) = world.items(VOLUME_CLAIMS)
    assert made["spec"]["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]


def test_somebody_elses_claim_of_the_name_is_never_touched() -> None:
    world = filled_claim()
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": NAME, "namespace": "slipway"}
    theirs = world.client.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )
    with pytest.raises(CannotRun, match="not Slipway's"):
        world.apply()
    assert world.items(VOLUME_CLAIMS) == [theirs]


# What is kept for a version goes with it.


def age(world: FilesWorld) -> None:
    """Make the object's last use long ago."""
    ref = Ref(VOLUME_CLAIMS, NAME, "slipway")
    long_ago = str(int(time.time()) - 2 * 86_400)
    world.client.patch(ref, {"metadata": {"annotations": {"slipway.io/asked-at": long_ago}}})


def test_what_no_version_needs_goes_and_what_was_just_asked_for_stays() -> None:
    world = brought(WAYS["filled_claim"])
    world.cluster.tidy(set())
    assert len(world.items(VOLUME_CLAIMS)) == 1
    age(world)
    world.cluster.tidy({DIGEST})
    assert len(world.items(VOLUME_CLAIMS)) == 1
    world.cluster.tidy(set())
    assert all("deletionTimestamp" in one["metadata"] for one in world.items(VOLUME_CLAIMS))


def test_who_begins_to_need_it_while_it_is_taken_away_keeps_it() -> None:
    """The remover pauses before each of its calls, and a deployment asks for the files meanwhile."""
    at = 0
    while True:
        at += 1
        world = brought(WAYS["filled_claim"])
        age(world)
        asked: list[bool] = []

        def meanwhile(world: FilesWorld = world, asked: list[bool] = asked) -> None:
            asked.append(True)
            with suppress(FilesPending):  # where it is gone, it is made anew
                world.apply(turn=5)

        remover, transport = world.writer()
        transport.faults.append(pausing(at, meanwhile))
        remover.tidy(set())
        if not asked:
            return
        assert any("deletionTimestamp" not in one["metadata"] for one in world.items(VOLUME_CLAIMS)), at


def test_a_writer_that_wakes_up_after_a_removal_makes_no_claim() -> None:
    at = 0
    while True:
        at += 1
        world = filled_claim()
        slept: list[bool] = []

        def meanwhile(world: FilesWorld = world, slept: list[bool] = slept) -> None:
            slept.append(True)
            world.cluster.remove(STORY.name, fence=Fence(1, 7))

        sleeper, transport = world.writer()
        transport.faults.append(pausing(at, meanwhile))
        with suppress(BackendError):
            sleeper.apply(STORY, fence=Fence(1, 3))
        if not slept:
            return
        for one in world.items(VOLUME_CLAIMS):
            # Made after it was overtaken: nobody asks for it, and the next look takes it away.
            ref = Ref(VOLUME_CLAIMS, one["metadata"]["name"], "slipway")
            world.client.patch(ref, {"metadata": {"annotations": {"slipway.io/asked-at": "0"}}})
        world.cluster.tidy(set())
        left = [one for one in world.items(VOLUME_CLAIMS) if "deletionTimestamp" not in one["metadata"]]
        assert left == [], at


def test_another_deployment_of_the_version_finds_the_claim_filled() -> None:
    world = brought(WAYS["filled_claim"])
    world.cluster.apply(replace(STORY, name="chat-v2-1"), fence=Fence(2, 1))
    assert len(world.items(DEPLOYMENTS)) == 2
    assert len(world.items(VOLUME_CLAIMS)) == 1
