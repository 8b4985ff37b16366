"""Workloads of a Kubernetes cluster: one Job each, suspended and resumed on another machine."""

from typing import Any

import pytest

from clusters.backends.kubernetes.standing import CHECKPOINT_ASKED, CHECKPOINT_DONE
from clusters.backends.node_operations import OperationUnsupported
from clusters.backends.workloads import RunsWorkloads, WorkloadSpec
from common.jobs.spec import JobState
from kube.resources import JOBS, PODS, SERVICES, Ref
from tests.contracts.cluster_rigs import KubernetesRig

NAME = "workload-7"
REQUEST = "2026-11-20T08:00:00+00:00"


@pytest.fixture
def rig() -> KubernetesRig:
    return KubernetesRig(machines=2)


def spec(run: int, machine: str, **columns: Any) -> WorkloadSpec:
    given = {"argv": ("python", "train.py"), "cards": 8, "checkpoint_seconds": 60, **columns}
    return WorkloadSpec(name=NAME, run=run, machine=machine, **given)


def pods(rig: KubernetesRig) -> list[dict[str, Any]]:
    rig.server.advance(3)
    found = rig.cluster.client.list(PODS, labels=f"batch.kubernetes.io/job-name={NAME}").items
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def test_a_suspended_workload_goes_on_as_the_same_job_on_another_machine(rig: KubernetesRig) -> None:
    runner = rig.cluster.workloads
    assert isinstance(rig.cluster, RunsWorkloads)
    runner.start(spec(1, "gpu-0"))
    (pod,) = pods(rig)
    assert pod["spec"]["nodeName"] == "gpu-0"
    assert "affinity" not in pod["spec"]
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert runner.observe(NAME, 1).state is JobState.RUNNING

    runner.ask_checkpoint(NAME, 1, REQUEST)
    assert runner.observe(NAME, 1).answered == ""
    ref = Ref(PODS, pod["metadata"]["name"], "slipway")
    asked = rig.cluster.client.get(ref)["metadata"]["annotations"][CHECKPOINT_ASKED]
    rig.cluster.client.patch(ref, {"metadata": {"annotations": {CHECKPOINT_DONE: asked}}})
    assert runner.observe(NAME, 1).answered == REQUEST

    runner.stop(NAME, 1)
    rig.server.advance(60)
    seen = runner.observe(NAME, 1)
    assert (seen.state, seen.is_stopped) == (JobState.FAILED, True)
    assert pods(rig) == []

    runner.start(spec(2, "gpu-1"))
    (pod,) = pods(rig)
    assert pod["spec"]["nodeName"] == "gpu-1"
    (job,) = rig.cluster.client.list(JOBS).items
    assert job["metadata"]["name"] == NAME


def test_orders_of_an_earlier_run_do_nothing_to_a_later_one(rig: KubernetesRig) -> None:
    runner = rig.cluster.workloads
    runner.start(spec(1, "gpu-0"))
    runner.stop(NAME, 1)
    rig.server.advance(60)
    runner.start(spec(1, "gpu-0"))
    assert pods(rig) == [], "a late start of a run that was stopped"
    runner.start(spec(2, "gpu-1"))
    runner.stop(NAME, 1)
    assert len(pods(rig)) == 1, "a late stop"
    assert runner.observe(NAME, 3).state is JobState.GONE


def test_one_whose_pod_is_lost_goes_on_in_a_new_job(rig: KubernetesRig) -> None:
    runner = rig.cluster.workloads
    runner.start(spec(1, "gpu-0"))
    rig.end_job(NAME, behaviour="evicted")
    rig.server.advance(60)
    seen = runner.observe(NAME, 1)
    assert (seen.state, seen.is_stopped) == (JobState.FAILED, True)
    runner.start(spec(2, "gpu-1"))
    (pod,) = pods(rig)
    assert pod["spec"]["nodeName"] == "gpu-1"
    assert runner.observe(NAME, 2).state is JobState.RUNNING


def test_the_end_of_a_workload_is_seen(rig: KubernetesRig) -> None:
    runner = rig.cluster.workloads
    runner.start(spec(1, "gpu-0"))
    rig.end_job(NAME, said="step 9\n")
    seen = runner.observe(NAME, 1)
    assert (seen.state, seen.log_tail) == (JobState.SUCCEEDED, "step 9\n")


def test_the_log_of_a_run_is_read_while_it_runs_and_never_that_of_the_run_before(rig: KubernetesRig) -> None:
    runner = rig.cluster.workloads
    runner.start(spec(1, "gpu-0"))
    (pod,) = pods(rig)
    rig.server.logs["slipway", pod["metadata"]["name"]] = "step 1\nstep 2\n"
    assert runner.log(NAME, 1, lines=1) == "step 2\n"
    assert runner.log(NAME, 2, lines=1) == "", "it has not begun"
    runner.stop(NAME, 1)
    rig.server.advance(1)
    runner.start(spec(2, "gpu-1"))
    assert rig.cluster.client.list(PODS).items[0]["metadata"]["deletionTimestamp"]
    assert runner.log(NAME, 2, lines=1) == "", "the pod of the first run is still there"
    (later,) = pods(rig)
    rig.server.logs["slipway", later["metadata"]["name"]] = "step 3\n"
    assert runner.log(NAME, 2, lines=9) == "step 3\n"
    assert runner.log(NAME, 1, lines=9) == ""


def test_checkpoints_lie_on_the_claim_that_it_names(rig: KubernetesRig) -> None:
    rig.cluster.workloads.start(spec(1, "gpu-0", claim="kept"))
    (pod,) = pods(rig)
    volume = next(one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one)
    assert volume["persistentVolumeClaim"]["claimName"] == "kept"
    given = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    mounts = {one["name"]: one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]}
    assert mounts[volume["name"]] == given["SLIPWAY_CHECKPOINT_DIR"]


def test_one_over_two_machines_is_an_indexed_job_whose_parts_find_each_other(rig: KubernetesRig) -> None:
    runner, both = rig.cluster.workloads, {"machines": 2, "rest": (("gpu-1", ()),)}
    runner.start(spec(1, "gpu-0", **both))
    parts = pods(rig)
    assert sorted(pod["spec"]["nodeName"] for pod in parts) == ["gpu-0", "gpu-1"]
    assert {pod["spec"]["hostname"] for pod in parts} == {f"{NAME}-0", f"{NAME}-1"}
    given = {one["name"]: one.get("value") for one in parts[0]["spec"]["containers"][0]["env"]}
    address = given["SLIPWAY_LEADER"].removeprefix(f"{NAME}-0.")
    assert {pod["spec"]["subdomain"] for pod in parts} == {address}
    service = rig.cluster.client.get(Ref(SERVICES, address, "slipway"))
    assert service["metadata"]["ownerReferences"][0]["name"] == NAME
    assert runner.observe(NAME, 1).state is JobState.RUNNING

    runner.ask_checkpoint(NAME, 1, REQUEST)
    for pod in parts:
        assert runner.observe(NAME, 1).answered == "", "not all parts have written theirs"
        ref = Ref(PODS, pod["metadata"]["name"], "slipway")
        rig.cluster.client.patch(ref, {"metadata": {"annotations": {CHECKPOINT_DONE: REQUEST}}})
    assert runner.observe(NAME, 1).answered == REQUEST

    runner.stop(NAME, 1)
    rig.server.advance(60)
    assert runner.observe(NAME, 1).is_stopped
    runner.start(spec(2, "gpu-1", machines=2, rest=(("gpu-0", ()),)))
    assert len(pods(rig)) == 2


def test_one_over_two_machines_waits_until_both_parts_have_a_place(rig: KubernetesRig) -> None:
    rig.cluster.workloads.start(spec(1, "gpu-0", machines=2, rest=(("gone", ()),)))
    rig.server.advance(3)
    assert rig.cluster.workloads.observe(NAME, 1).state is JobState.WAITING


def test_an_image_without_a_digest_is_refused(rig: KubernetesRig) -> None:
    with pytest.raises(OperationUnsupported, match="by digest"):
        rig.cluster.workloads.start(spec(1, "gpu-0", image="registry.example/train:latest"))
