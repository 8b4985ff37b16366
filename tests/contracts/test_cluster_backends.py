"""The contract of every cluster backend, the fake too."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    ObservedNode,
    ObservedState,
    StaleDeploymentFence,
    UnknownWorker,
)
from clusters.backends.placement import Placement, Resources, Spread, Toleration
from clusters.states import CheckResult
from common.fence import Fence
from tests.contracts.cluster_rigs import EmbeddedRig, FakeRig, Rig, ready, wish
from tests.patience import eventually

pytestmark = [pytest.mark.stack]


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRig]:
    rig = EmbeddedRig(tmp_path_factory.mktemp("cluster") / "home")
    try:
        yield rig
    finally:
        rig.stop()


@pytest.fixture(params=["fake", "embedded"])
def rig(request: pytest.FixtureRequest) -> Rig:
    return FakeRig() if request.param == "fake" else request.getfixturevalue("embedded")


def test_a_deployment_gets_the_workers_that_were_asked_for(rig: Rig) -> None:
    spec = wish(replicas=2)

    rig.cluster.apply(spec, fence=Fence(1, 1))

    workers = ready(rig.cluster, spec)
    assert [worker.name for worker in workers] == [f"{spec.name}-0", f"{spec.name}-1"]
    assert len({worker.id for worker in workers}) == 2
    assert len({worker.port for worker in workers}) == 2
    for worker in workers:
        assert worker.address == "127.0.0.1"
        assert worker.pid is not None
        assert (worker.restarts, worker.reason) == (0, "")
        assert worker.node in {node.name for node in rig.cluster.nodes()}


def test_asking_again_changes_nothing(rig: Rig) -> None:
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    before = ready(rig.cluster, spec)

    rig.cluster.apply(spec, fence=Fence(1, 2))

    assert ready(rig.cluster, spec) == before


def test_more_workers_leave_the_first_ones_alone(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (first,) = ready(rig.cluster, spec)

    rig.cluster.apply(replace(spec, replicas=3), fence=Fence(1, 2))

    assert ready(rig.cluster, replace(spec, replicas=3))[0] == first


def test_fewer_workers_end_the_last_ones(rig: Rig) -> None:
    spec = wish(replicas=3)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    before = ready(rig.cluster, spec)

    rig.cluster.apply(replace(spec, replicas=1), fence=Fence(1, 2))

    assert ready(rig.cluster, replace(spec, replicas=1)) == before[:1]


def test_no_workers_at_all_can_be_asked_for_and_taken_back(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    ready(rig.cluster, spec)
    rig.cluster.apply(replace(spec, replicas=0), fence=Fence(1, 2))
    eventually(lambda: rig.cluster.observe(spec.name) == ())

    rig.cluster.apply(spec, fence=Fence(1, 3))

    assert len(ready(rig.cluster, spec)) == 1


def test_an_earlier_writer_is_refused(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 5))

    for late in (Fence(1, 4), Fence(0, 9)):
        with pytest.raises(StaleDeploymentFence):
            rig.cluster.apply(replace(spec, replicas=0), fence=late)
        with pytest.raises(StaleDeploymentFence):
            rig.cluster.remove(spec.name, fence=late)

    assert len(ready(rig.cluster, spec)) == 1


def test_an_earlier_writer_cannot_bring_back_what_was_removed(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    rig.cluster.remove(spec.name, fence=Fence(1, 3))

    with pytest.raises(StaleDeploymentFence):
        rig.cluster.apply(spec, fence=Fence(1, 2))

    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_a_later_holder_wins_whatever_its_turn(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 50))

    rig.cluster.apply(replace(spec, replicas=0), fence=Fence(2, 1))

    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_a_removed_deployment_has_no_workers_and_can_be_removed_replace(rig: Rig) -> None:
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    ready(rig.cluster, spec)

    rig.cluster.remove(spec.name, fence=Fence(1, 2))
    rig.cluster.remove(spec.name, fence=Fence(1, 2))

    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_removing_what_never_was_is_no_error(rig: Rig) -> None:
    rig.cluster.remove("nobody-asked", fence=Fence(1, 1))

    assert rig.cluster.observe("nobody-asked") == ()


def test_a_killed_worker_comes_back_to_its_seat_and_is_counted(rig: Rig) -> None:
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    victim, other = ready(rig.cluster, spec)

    rig.kill(victim)

    eventually(lambda: rig.cluster.observe(spec.name)[0].restarts == 1)
    after, same = ready(rig.cluster, spec)
    assert (after.name, after.port) == (victim.name, victim.port)
    assert after.pid != victim.pid
    assert same == other


def test_a_worker_that_cannot_run_is_failed_with_the_reason(rig: Rig) -> None:
    spec = wish(replicas=1, settings={"fails": "the model has no weights"})

    rig.cluster.apply(spec, fence=Fence(1, 1))

    eventually(lambda: [worker.state for worker in rig.cluster.observe(spec.name)] == [ObservedState.FAILED])
    assert "the model has no weights" in rig.cluster.observe(spec.name)[0].reason
    rig.cluster.remove(spec.name, fence=Fence(1, 2))
    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_other_settings_replace_the_workers(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, spec)
    changed = replace(spec, slots=2, settings={"note": "50 % of 'all' #1; ü"})

    def replaced() -> bool:
        rig.cluster.apply(changed, fence=Fence(1, 2))
        return [worker.pid for worker in rig.cluster.observe(spec.name)] not in ([before.pid], [])

    eventually(replaced)
    (after,) = ready(rig.cluster, changed)
    assert after.pid != before.pid


def test_deployments_whose_names_begin_alike_are_told_apart(rig: Rig) -> None:
    short = wish(replicas=1)
    long = replace(short, name=f"{short.name}-0")
    for spec in (short, long):
        rig.cluster.apply(spec, fence=Fence(1, 1))
        ready(rig.cluster, spec)

    rig.cluster.remove(short.name, fence=Fence(1, 2))

    eventually(lambda: rig.cluster.observe(short.name) == ())
    assert len(ready(rig.cluster, long)) == 1


def test_two_clusters_side_by_side_do_not_see_each_others_workers(rig: Rig) -> None:
    spec = wish(replicas=1)
    with rig.another() as other:
        for cluster, replicas in ((rig.cluster, 1), (other, 2)):
            cluster.apply(replace(spec, replicas=replicas), fence=Fence(1, 1))
        (here,) = ready(rig.cluster, spec)
        there = ready(other, replace(spec, replicas=2))
        assert here.pid not in {worker.pid for worker in there}

        other.remove(spec.name, fence=Fence(1, 2))

        eventually(lambda: other.observe(spec.name) == ())
        assert rig.cluster.observe(spec.name) == (here,)


def test_what_a_worker_wrote_can_be_read(rig: Rig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    ready(rig.cluster, spec)

    assert spec.name in rig.cluster.logs(f"{spec.name}-0", lines=5)
    for nobody in ("nobody-0", "../secret-key", "gateway"):
        with pytest.raises(UnknownWorker):
            rig.cluster.logs(nobody, lines=5)


def test_a_name_that_could_be_a_path_is_refused() -> None:
    with pytest.raises(CannotRun):
        wish(name="../chat")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"labels": {"a b": "c"}}, "labels: a b=c is no label"),
        ({"placement": Placement(node_selector={"zone": "b!"})}, "node_selector: zone=b! is no label"),
        ({"placement": Placement(namespace="Prod")}, "'Prod' cannot name a namespace"),
        ({"placement": Placement(image_pull_secrets=("../x",))}, "'../x' cannot name a secret"),
        ({"placement": Placement(spread=(Spread(topology_key="zone", max_skew=0),))}, "max_skew of zone"),
        ({"resources": Resources(memory_bytes=-1)}, "memory_bytes must not be negative"),
        ({"replicas": -1}, "cannot have -1 workers"),
    ],
)
def test_what_no_cluster_could_run_is_refused_in_words(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(CannotRun, match=re.escape(fault)):
        wish(**fields)


def test_labels_and_pull_secrets_stop_nobody(rig: Rig) -> None:
    spec = wish(
        replicas=1,
        labels={"slipway/service": "chat"},
        placement=Placement(image_pull_secrets=("registry",), tolerations=(Toleration(key="gpu"),)),
    )
    rig.cluster.apply(spec, fence=Fence(1, 1))
    assert len(ready(rig.cluster, spec)) == 1


def test_a_cluster_out_of_reach_says_so_everywhere(rig: Rig) -> None:
    cluster = rig.cut()
    spec = wish()

    assert cluster.health().ok is False
    for order in (
        lambda: cluster.apply(spec, fence=Fence(1, 1)),
        lambda: cluster.observe(spec.name),
    ):
        with pytest.raises(ClusterUnreachable):
            order()


def test_its_checks_say_step_by_step_what_was_found(rig: Rig) -> None:
    found = rig.cluster.checks()
    assert found[0].name == "reachable"
    assert CheckResult.FAILED not in {one.result for one in found}
    assert all(one.detail for one in found)

    (unreachable,) = rig.cut().checks()
    assert (unreachable.name, unreachable.result) == ("reachable", CheckResult.FAILED)
    assert unreachable.detail


def test_the_machine_is_told_with_its_size(rig: Rig) -> None:
    (node,) = rig.cluster.nodes()

    assert isinstance(node, ObservedNode)
    assert node.is_ready
    assert (node.uid, node.boot_id) == (rig.cluster.nodes()[0].uid, rig.cluster.nodes()[0].boot_id)
    assert node.uid
    assert node.boot_id
    assert node.cpu_count >= 1
    assert node.memory_bytes > 2**28
    assert all(gpu.memory_bytes > 0 for gpu in node.gpus or ())
