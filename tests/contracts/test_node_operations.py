"""The contract of operations on a machine: on a real supervisord, and with the fake."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    DeploymentSpec,
    ObservedNode,
    StaleDeploymentFence,
)
from clusters.backends.embedded.mps import MpsControl
from clusters.backends.node_operations import (
    MIG_CONFIG,
    MIG_STATE,
    CordonedByOther,
    NodeCommand,
    NodeOperations,
    OperationUnsupported,
    UnknownNode,
)
from clusters.backends.observed_pods import ObservedPod
from clusters.backends.placement import Taint, TaintEffect
from common.fence import Fence
from common.jobs.spec import JobSpec, JobState, owner_of
from kube.resources import NODES, PODS
from tests import mps_control
from tests.contracts.cluster_rigs import EmbeddedRig, FakeRig, KubernetesRig, ready, wish
from tests.patience import eventually

pytestmark = [pytest.mark.stack]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRig]:
    rig = EmbeddedRig(tmp_path_factory.mktemp("cluster") / "home")
    try:
        yield rig
    finally:
        rig.stop()


MADE = {"fake": FakeRig, "kubernetes": KubernetesRig}


@pytest.fixture(params=["fake", "embedded", "kubernetes"])
def rig(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = MADE.get(request.param)
    rig = made() if made else request.getfixturevalue("embedded")
    yield rig
    marks = node_of(rig).cordon
    if marks:
        rig.cluster.node_operations.uncordon(node_of(rig).uid, order(by=marks.by))


turns = iter(range(1, 10_000))


def order(*, by: str = "ada", turn: int | None = None, op_key: str = "op") -> NodeCommand:
    return NodeCommand(
        op_key, Fence(1, next(turns) if turn is None else turn), by, "GPU 0 is to be replaced."
    )


def node_of(rig: Any) -> ObservedNode:
    (node,) = rig.cluster.nodes()
    assert isinstance(node, ObservedNode)
    return node


def why_not_placed(rig: Any, spec: DeploymentSpec) -> str:
    """Return why new workers find no machine."""
    if rig.name != "kubernetes":
        with pytest.raises(CannotRun) as refusal:
            rig.cluster.apply(spec, fence=Fence(1, 1))
        assert rig.cluster.observe(spec.name) == ()
        return str(refusal.value)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    eventually(lambda: any(one.reason for one in rig.cluster.observe(spec.name)))
    assert {one.node for one in rig.cluster.observe(spec.name)} == {""}
    return " ".join(one.reason for one in rig.cluster.observe(spec.name))


def pod_of(rig: Any, worker: str) -> ObservedPod:
    found = rig.cluster.node_operations.pods(node_of(rig).uid)
    return next(pod for pod in found if pod.name == worker)


def test_a_cordoned_machine_keeps_its_workers_and_gets_no_new_ones(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    spec, late = wish(replicas=1), wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    before = ready(rig.cluster, spec)
    for _ in range(2):
        operations.cordon(node_of(rig).uid, order())

    cordon = node_of(rig).cordon
    assert cordon is not None
    assert (cordon.by, cordon.reason) == ("ada", "GPU 0 is to be replaced.")
    rig.cluster.apply(spec, fence=Fence(1, 2))
    assert ready(rig.cluster, spec) == before
    assert "cordoned" in why_not_placed(rig, late)

    operations.uncordon(node_of(rig).uid, order())
    operations.uncordon(node_of(rig).uid, order())
    rig.cluster.apply(late, fence=Fence(1, 2))
    assert len(ready(rig.cluster, late)) == 1


def test_a_cordon_is_taken_back_by_whom_it_is_from(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    operations.cordon(node_of(rig).uid, order(by="gpu-health"))
    for wrong in (operations.cordon, operations.uncordon):
        with pytest.raises(CordonedByOther, match="gpu-health"):
            wrong(node_of(rig).uid, order(by="ada"))
    cordon = node_of(rig).cordon
    assert cordon is not None
    assert cordon.by == "gpu-health"


def test_a_late_order_is_refused_and_changes_nothing(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    turn = next(turns)
    operations.cordon(node_of(rig).uid, order(turn=turn))
    with pytest.raises(StaleDeploymentFence):
        operations.uncordon(node_of(rig).uid, order(turn=turn - 1))
    assert node_of(rig).cordon is not None


def test_a_taint_is_set_replaced_and_taken_back(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    for value in ("suspect", "broken"):
        operations.taint(node_of(rig).uid, Taint("gpu", TaintEffect.NO_EXECUTE, value), order())
    assert node_of(rig).taints == (Taint("gpu", TaintEffect.NO_EXECUTE, "broken"),)
    for _ in range(2):
        operations.untaint(node_of(rig).uid, Taint("gpu", TaintEffect.NO_EXECUTE), order())
    assert node_of(rig).taints == ()


def test_what_stands_on_a_machine_is_told_with_whom_it_works_for(rig: Any) -> None:
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    workers = {worker.name for worker in ready(rig.cluster, spec)}
    pods = [one for one in rig.cluster.node_operations.pods(node_of(rig).uid) if one.deployment == spec.name]
    assert {one.name for one in pods} == workers
    assert all(one.owner and not one.is_leaving and not one.is_daemon for one in pods)
    assert {one.node for one in pods} == {node_of(rig).name}
    rig.cluster.remove(spec.name, fence=Fence(1, 2))


def test_an_evicted_worker_leaves_and_a_cordoned_machine_does_not_take_it_back(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    spec, uid = wish(replicas=1), node_of(rig).uid
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (worker,) = ready(rig.cluster, spec)
    operations.cordon(uid, order())
    pod = pod_of(rig, worker.name)

    def left() -> bool:
        assert operations.evict(uid, pod, order()).is_accepted
        return worker.id not in {one.id for one in rig.cluster.observe(spec.name)}

    eventually(left)
    assert worker.name not in {one.name for one in operations.pods(uid)}
    if rig.name == "kubernetes":
        assert "cordoned" in why_not_placed(rig, spec)
    else:
        with pytest.raises(CannotRun, match="cordoned"):
            rig.cluster.apply(spec, fence=Fence(1, 2))


def test_a_late_eviction_is_refused_and_the_pod_stays(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    spec, uid, turn = wish(replicas=1), node_of(rig).uid, next(turns)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (worker,) = ready(rig.cluster, spec)
    operations.untaint(uid, Taint("gpu", TaintEffect.NO_EXECUTE), order(turn=turn))
    with pytest.raises(StaleDeploymentFence):
        operations.evict(uid, pod_of(rig, worker.name), order(turn=turn - 1))
    assert ready(rig.cluster, spec) == (worker,)


@pytest.mark.parametrize("made", [FakeRig, KubernetesRig])
def test_a_budget_forbids_an_eviction_and_a_deletion_passes_over_it(made: Any) -> None:
    rig = made()
    operations: NodeOperations = rig.cluster.node_operations
    spec, uid = wish(replicas=2), node_of(rig).uid
    rig.cluster.apply(spec, fence=Fence(1, 1))
    first, second = ready(rig.cluster, spec)
    if rig.name == "fake":
        rig.cluster.node_operations.budgets[spec.name] = "chat needs 1 worker"
    else:
        assert operations.evict(uid, pod_of(rig, first.name), order()).is_accepted
    pod = pod_of(rig, second.name)
    assert [budget.allowed for budget in pod.budgets] == [0]
    answer = operations.evict(uid, pod, order())
    assert not answer.is_accepted
    assert spec.service in answer.blocked_by
    assert answer.retry_after is not None
    assert not pod_of(rig, second.name).is_leaving

    assert operations.evict(uid, pod, order(), past_budgets=True).is_accepted
    eventually(lambda: second.id not in {one.id for one in rig.cluster.observe(spec.name)})


def test_a_reboot_is_begun_once_for_an_operation_and_this_machine_refuses_it(
    request: pytest.FixtureRequest,
) -> None:
    fake, real = FakeRig(), request.getfixturevalue("embedded")
    before = node_of(fake).boot_id
    for _ in range(2):
        fake.cluster.node_operations.reboot(node_of(fake).uid, order(op_key="heal-1"))
    assert (fake.cluster.node_operations.reboots, node_of(fake).boot_id != before) == (1, True)
    with pytest.raises(OperationUnsupported, match="Slipway runs on this machine itself"):
        real.cluster.node_operations.reboot(node_of(real).uid, order())


def test_a_job_runs_once_on_the_machine_and_a_late_order_starts_none(rig: Any) -> None:
    operations: NodeOperations = rig.cluster.node_operations
    node = node_of(rig).uid
    job = JobSpec(op_key="reset-1", owner=owner_of("test.node", 1), argv=(sys.executable, "-c", "pass"))
    late = replace(job, op_key="reset-2")
    turn = next(turns)
    for _ in range(2):
        operations.run_job(node, job, order(turn=turn))
    with pytest.raises(StaleDeploymentFence):
        operations.run_job(node, late, order(turn=turn - 1))

    jobs = operations.jobs(node)
    assert jobs.names(job.owner) == [job.name]
    if rig.name == "fake":
        rig.cluster.node_operations.job_runner.finish(job.name, {})
    elif rig.name == "kubernetes":
        assert jobs.observe(job.name).is_live
        rig.end_job(job.name)
    eventually(lambda: jobs.observe(job.name).state is JobState.SUCCEEDED)
    operations.run_job(node, job, order())
    assert jobs.observe(job.name).state is JobState.SUCCEEDED
    jobs.remove(job.name)
    with pytest.raises(UnknownNode):
        operations.run_job("nobody", job, order())


def operands_on(rig: KubernetesRig) -> set[str]:
    rig.server.advance(40)
    pods = rig.cluster.client.list(PODS, namespace="gpu-operator").items
    return {pod["metadata"]["labels"]["app"] for pod in pods}


def test_operands_of_the_gpu_operator_leave_while_they_are_paused_and_come_back() -> None:
    rig = KubernetesRig()
    rig.server.make("namespaces", {"metadata": {"name": "gpu-operator"}})
    for name, value in (("device-plugin", "true"), ("dcgm", "true"), ("dcgm-exporter", "false")):
        rig.label(f"nvidia.com/gpu.deploy.{name}", value)
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": {f"nvidia.com/gpu.deploy.{name}": "true"},
                "containers": [{"name": "main", "image": "registry.example/operand:1"}],
            },
        }
        rig.server.make(
            "daemonsets.apps",
            {
                "metadata": {"name": name, "namespace": "gpu-operator"},
                "spec": {"selector": {"matchLabels": labels}, "template": template},
            },
        )
    rig.label("nvidia.com/gpu.deploy.mig-manager", "true")
    assert operands_on(rig) == {"device-plugin", "dcgm"}
    operations, machine = rig.cluster.node_operations, node_of(rig).uid

    for _ in range(2):
        operations.pause_operands(machine, order())
    assert operands_on(rig) == set()
    with pytest.raises(StaleDeploymentFence):
        operations.resume_operands(machine, order(turn=0))
    for _ in range(2):
        operations.resume_operands(machine, order())
    assert operands_on(rig) == {"device-plugin", "dcgm"}
    (node,) = rig.cluster.client.list(NODES).items
    operated = {key: value for key, value in node["metadata"]["labels"].items() if "gpu.deploy" in key}
    assert operated == {
        "nvidia.com/gpu.deploy.device-plugin": "true",
        "nvidia.com/gpu.deploy.dcgm": "true",
        "nvidia.com/gpu.deploy.dcgm-exporter": "false",
        "nvidia.com/gpu.deploy.mig-manager": "true",
    }


def test_a_machine_gets_and_loses_a_label_by_order_and_a_late_order_is_refused(rig: Any) -> None:
    operations, machine = rig.cluster.node_operations, node_of(rig).uid
    if isinstance(rig, EmbeddedRig):
        with pytest.raises(OperationUnsupported):
            operations.set_label(machine, "slipway.io/service", "chat", order())
        return
    operations.set_label(machine, "slipway.io/service", "chat", order())
    assert operations.look(machine).labels["slipway.io/service"] == "chat"
    with pytest.raises(StaleDeploymentFence):
        operations.set_label(machine, "slipway.io/service", "code", order(turn=0))
    operations.set_label(machine, "slipway.io/service", None, order())
    assert "slipway.io/service" not in operations.look(machine).labels


def test_mig_manager_is_asked_once_for_a_layout_and_shows_how_far_it_is(rig: Any) -> None:
    operations, machine = rig.cluster.node_operations, node_of(rig).uid
    if not isinstance(rig, FakeRig):
        with pytest.raises(OperationUnsupported):
            operations.set_mig_config(machine, "all-1g.10gb", order())
    if isinstance(rig, EmbeddedRig):
        return
    if isinstance(rig, KubernetesRig):
        rig.label("nvidia.com/mig.capable", "true")
    for _ in range(2):
        operations.set_mig_config(machine, "all-1g.10gb", order())
    if isinstance(rig, KubernetesRig):
        rig.server.advance(40)
    eventually(lambda: operations.look(machine).labels.get(MIG_STATE) == "success")
    with pytest.raises(StaleDeploymentFence):
        operations.set_mig_config(machine, "all-disabled", order(turn=0))
    assert operations.look(machine).labels[MIG_CONFIG] == "all-1g.10gb"


def test_mps_divides_the_gpus_of_a_machine_and_ends_its_clients_when_it_is_undone(
    rig: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations, machine = rig.cluster.node_operations, node_of(rig).uid
    if not isinstance(rig, FakeRig):
        with pytest.raises(OperationUnsupported):
            operations.set_mps_shares(machine, 3, order())
    client = None
    if isinstance(rig, KubernetesRig):
        rig.label("nvidia.com/gpu.count", "8")
        rig.label("nvidia.com/device-plugin.config", "mps-5")
        rig.server.advance(10)
    if isinstance(rig, EmbeddedRig):
        mps_control.install(tmp_path)
        (tmp_path / "nvidia-smi").write_text(
            "#!/bin/sh\necho 0, GPU-1, NVIDIA L4, 23034, 580, -, -, Disabled\n"
        )
        (tmp_path / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "mps"))
    before = operations.mps_shares(machine)
    for _ in range(2):
        operations.set_mps_shares(machine, 3, order())
    if isinstance(rig, KubernetesRig):
        rig.server.advance(10)
    assert operations.mps_shares(machine) == 3
    if isinstance(rig, EmbeddedRig):
        assert MpsControl().ask("get_default_device_pinned_mem_limit 0") == "7678M"
        client = subprocess.Popen(["sleep", "60"])
    with pytest.raises(StaleDeploymentFence):
        operations.set_mps_shares(machine, 2, order(turn=0))
    operations.set_mps_shares(machine, 0, order())
    if isinstance(rig, KubernetesRig):
        rig.server.advance(10)
    assert operations.mps_shares(machine) == before, "what stood there before"
    assert client is None or client.wait(5) != 0, "it is terminated before its daemon ends"


def test_a_machine_that_is_not_there_is_told(rig: Any) -> None:
    with pytest.raises(UnknownNode):
        rig.cluster.node_operations.cordon("nobody", order())
