"""Jobs on one machine of a Kubernetes cluster: once, there, and what came of them."""

from typing import Any

import pytest

from clusters.backends.base import ObservedNode
from clusters.backends.kubernetes.backend import KubernetesCluster
from clusters.backends.kubernetes.jobs import OP_KEY, ending_of, result_of
from clusters.backends.kubernetes.settings import KubernetesSettings
from clusters.backends.node_operations import NodeCommand, OperationUnsupported
from common.errors import Unavailable
from common.fence import Fence
from common.jobs.spec import Ending, JobContainer, JobLimits, JobSpec, JobState, owner_of
from kube.fake.transport import failing
from kube.resources import JOBS, PODS, Ref
from tests.contracts.cluster_rigs import IMAGE, KubernetesRig
from tests.contracts.test_job_runners import OWNER

JOB = JobSpec("heal:7:1", owner_of("test.node", 7), ("python3", "-m", "serving.repairs", "[]"))


@pytest.fixture
def rig() -> KubernetesRig:
    return KubernetesRig(machines=2)


def uid_of(rig: KubernetesRig, index: int = 1) -> str:
    node = rig.cluster.nodes()[index]
    assert isinstance(node, ObservedNode)
    return node.uid


turns = iter(range(1, 1000))


def run(rig: KubernetesRig, job: JobSpec = JOB) -> Any:
    uid = uid_of(rig)
    rig.cluster.node_operations.run_job(
        uid, job, NodeCommand(job.op_key, Fence(1, next(turns)), "test", "why")
    )
    return rig.cluster.node_operations.jobs(uid)


def pod_of(rig: KubernetesRig, job: JobSpec = JOB) -> dict[str, Any]:
    rig.server.advance(2)
    (pod,) = rig.cluster.client.list(PODS, labels=f"batch.kubernetes.io/job-name={job.name}").items
    return pod


def test_it_runs_on_its_machine_though_that_is_cordoned(rig: KubernetesRig) -> None:
    node = rig.cluster.node_operations.look(uid_of(rig))
    rig.cluster.node_operations.cordon(node.uid, NodeCommand("c", Fence(1, next(turns)), "test", "why"))
    rig.server.advance(1)
    jobs = run(rig)
    assert pod_of(rig)["spec"]["nodeName"] == node.name
    assert jobs.observe(JOB.name).state is JobState.RUNNING
    assert jobs.names(JOB.owner) == [JOB.name]
    assert jobs.names(OWNER) == []


def test_only_what_asked_for_it_reaches_the_machine_itself(rig: KubernetesRig) -> None:
    plain = JobSpec("check:1", JOB.owner, ("python3",), container=JobContainer(gpus=2))
    repair = JobSpec("repair:1", JOB.owner, ("python3",), container=JobContainer(is_privileged=True))
    for job, is_privileged in ((plain, False), (repair, True)):
        run(rig, job)
        spec = pod_of(rig, job)["spec"]
        (container,) = spec["containers"]
        assert container["securityContext"].get("privileged", False) is is_privileged
        assert spec.get("hostPID", False) is is_privileged
        assert container["image"] == IMAGE
    limits = pod_of(rig, plain)["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "2"}


def test_it_has_the_directories_of_its_machine_that_it_asks_for(rig: KubernetesRig) -> None:
    job = JobSpec(
        "drill:1", JOB.owner, ("python3",), container=JobContainer(directories=("/var/lib/slipway",))
    )
    run(rig, job)
    spec = pod_of(rig, job)["spec"]
    (mount,) = [
        one for one in spec["containers"][0]["volumeMounts"] if one["mountPath"] == "/var/lib/slipway"
    ]
    (volume,) = [one for one in spec["volumes"] if one["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": "/var/lib/slipway", "type": "DirectoryOrCreate"}


def test_its_result_is_the_json_that_it_said_last(rig: KubernetesRig) -> None:
    jobs = run(rig)
    rig.end_job(JOB.name, said='Stopping dcgm ...\n{"done": true, "words": "All commands were run."}\n')
    seen = jobs.observe(JOB.name)
    assert (seen.state, seen.ending, seen.exit_code) == (JobState.SUCCEEDED, Ending.COMPLETED, 0)
    assert seen.result == {"done": True, "words": "All commands were run."}
    assert seen.ended_at is not None
    assert result_of('{\n "passed": true\n}\n') == {"passed": True}
    assert result_of("no word") is None


def test_how_it_failed_is_told_and_it_is_not_tried_again(rig: KubernetesRig) -> None:
    jobs = run(rig)
    rig.end_job(JOB.name, behaviour="fail:3", said="No such GPU.\n")
    rig.server.advance(60)
    seen = jobs.observe(JOB.name)
    assert (seen.state, seen.ending) == (JobState.FAILED, Ending.ERROR)
    assert seen.why == "It ended with status 3."
    assert seen.log_tail == "No such GPU.\n"
    run(rig)
    rig.server.advance(60)
    assert jobs.observe(JOB.name).state is JobState.FAILED


def test_the_end_of_its_container_is_told_in_words() -> None:
    failed = {"type": "Failed", "reason": "BackoffLimitExceeded"}
    assert ending_of(failed, {"reason": "OOMKilled", "exitCode": 137})[0] is Ending.OUT_OF_MEMORY
    assert ending_of(failed, {"exitCode": 143}) == (Ending.KILLED, "It was ended by signal 15.")
    assert ending_of(failed, {})[0] is Ending.KILLED, "its machine restarted"


def test_one_that_takes_too_long_is_ended(rig: KubernetesRig) -> None:
    job = JobSpec("heal:7:2", JOB.owner, ("sleep", "9999"), limits=JobLimits(wall_seconds=30))
    jobs = run(rig, job)
    rig.server.advance(60)
    seen = jobs.observe(job.name)
    assert (seen.state, seen.ending) == (JobState.FAILED, Ending.TIME_LIMIT)


def test_one_that_was_stopped_stays_so_and_goes_when_it_is_removed(rig: KubernetesRig) -> None:
    jobs = run(rig)
    rig.server.advance(2)
    jobs.remove(JOB.name)
    assert jobs.observe(JOB.name).is_live, "one that lives stays"
    jobs.stop(JOB.name)
    rig.server.advance(60)
    assert jobs.observe(JOB.name).ending is Ending.STOPPED
    run(rig)
    rig.server.advance(10)
    assert jobs.observe(JOB.name).ending is Ending.STOPPED, "a second start is none"
    jobs.remove(JOB.name)
    rig.server.advance(5)
    assert jobs.observe(JOB.name).state is JobState.GONE
    jobs.stop(JOB.name)
    jobs.remove(JOB.name)


def test_a_job_of_the_name_that_is_not_ours_is_never_taken_for_it(rig: KubernetesRig) -> None:
    run(rig)
    ref = Ref(JOBS, JOB.name, "slipway")
    rig.cluster.client.patch(ref, {"metadata": {"annotations": {OP_KEY: "another"}}})
    with pytest.raises(OperationUnsupported, match="somebody else's"):
        run(rig)


def test_a_reboot_is_a_privileged_job_begun_once(rig: KubernetesRig) -> None:
    uid = uid_of(rig)
    for _ in range(2):
        order = NodeCommand("reboot:1", Fence(1, next(turns)), "test", "why")
        rig.cluster.node_operations.reboot(uid, order)
    (job,) = rig.cluster.client.list(JOBS).items
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][-2:] == ["systemctl", "reboot"]
    assert job["spec"]["backoffLimit"] == 0


def test_what_cannot_be_is_said(rig: KubernetesRig) -> None:
    bare = KubernetesCluster(rig.cluster.client, KubernetesSettings())
    order = NodeCommand("x", Fence(1, next(turns)), "test", "why")
    with pytest.raises(OperationUnsupported, match="set jobs_image"):
        bare.node_operations.run_job(uid_of(rig), JOB, order)
    with pytest.raises(OperationUnsupported, match="Set jobs_image"):
        bare.node_operations.reboot(uid_of(rig), order)
    with pytest.raises(OperationUnsupported, match="no standard input"):
        run(rig, JobSpec("y", JOB.owner, ("cat",), stdin=b"secret"))


def test_a_cluster_that_fails_is_no_word_on_the_job(rig: KubernetesRig) -> None:
    jobs = run(rig)
    rig.cluster.client.transport.faults.append(failing(503, "leader changed"))  # type: ignore[attr-defined]
    with pytest.raises(Unavailable):
        jobs.observe(JOB.name)
