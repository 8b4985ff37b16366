"""The embedded cluster alone: slots that outlive processes, ports, GPUs, workers that misbehave."""

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.base import (
    CannotRun,
    ClusterUnreachable,
    ModelVersion,
    ObservedGpu,
    ObservedState,
    StaleDeploymentFence,
)
from clusters.backends.embedded import machine, slots
from clusters.backends.embedded.backend import EmbeddedCluster
from clusters.backends.placement import Placement, Resources, Spread, TaintEffect, Toleration
from clusters.backends.supervisor_rpc import SupervisorUnreachable
from common.fence import Fence
from controlplane.environment import PROJECT
from tests.contracts.cluster_rigs import PORTS, EmbeddedRig, ready, wish
from tests.patience import eventually

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRig]:
    rig = EmbeddedRig(tmp_path_factory.mktemp("cluster") / "home")
    try:
        yield rig
    finally:
        rig.stop()


@pytest.fixture
def unstarted(tmp_path: Path) -> EmbeddedCluster:
    """A cluster before its supervisord has started."""
    places = {"run_dir": tmp_path / "run", "log_dir": tmp_path / "logs", "directory": PROJECT}
    return EmbeddedCluster(**places, ports=PORTS.workers, bring_files=lambda _: PROJECT)


def test_a_restart_of_everything_brings_the_workers_back_to_their_ports(rig: EmbeddedRig) -> None:
    kept, gone = wish(replicas=2), wish(replicas=1)
    for spec in (kept, gone):
        rig.cluster.apply(spec, fence=Fence(1, 1))
    before = ready(rig.cluster, kept)
    rig.cluster.remove(gone.name, fence=Fence(1, 2))

    assert rig.restart() == []

    after = ready(rig.cluster, kept)
    assert [worker.port for worker in after] == [worker.port for worker in before]
    assert not {worker.pid for worker in after} & {worker.pid for worker in before}
    assert rig.cluster.observe(gone.name) == ()
    with pytest.raises(StaleDeploymentFence):
        rig.cluster.apply(gone, fence=Fence(1, 1))


def test_workers_outlive_their_supervisord_and_the_next_one_takes_them_over(
    rig: EmbeddedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, surplus = wish(replicas=2), wish(replicas=2, settings={"drains_seconds": 1})
    for each in (spec, surplus):
        rig.cluster.apply(each, fence=Fence(1, 1))
    before, more = ready(rig.cluster, spec), ready(rig.cluster, surplus)
    with monkeypatch.context() as cut:
        cut.setattr(rig.cluster, "_carry_out", lambda *_: None)
        rig.cluster.apply(replace(surplus, replicas=1), fence=Fence(1, 2))
    rig.kill_supervisord()

    assert rig.start_supervisord() == []

    after = ready(rig.cluster, spec)
    assert [(worker.pid, worker.port) for worker in after] == [(one.pid, one.port) for one in before]
    assert [
        abs((one.since - other.since).total_seconds()) < 2 for one, other in zip(after, before, strict=True)
    ]
    (left,) = ready(rig.cluster, replace(surplus, replicas=1))
    assert left.pid == more[0].pid

    rig.kill(after[0])

    eventually(lambda: rig.cluster.observe(spec.name)[0].restarts == 1)
    again = ready(rig.cluster, spec)
    assert again[0].port == before[0].port
    assert again[1].pid == before[1].pid
    rig.cluster.remove(spec.name, fence=Fence(1, 2))
    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_a_port_that_another_program_took_meanwhile_is_changed(rig: EmbeddedRig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, spec)
    rig.kill_supervisord()
    rig.kill(before)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        eventually(lambda: bound(thief, before.port))
        thief.listen()

        rig.restart()

        (after,) = ready(rig.cluster, spec)
    assert after.port != before.port


def test_a_worker_whose_port_another_program_takes_while_it_starts_gets_another_one(rig: EmbeddedRig) -> None:
    spec = wish(replicas=2)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    before, other = ready(rig.cluster, spec)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rig.kill(before)
        eventually(lambda: bound(thief, before.port), every=0.0005)
        thief.listen()
        eventually(lambda: rig.cluster.observe(spec.name) == (other,), every=0.01)

        def applied() -> bool:
            rig.cluster.apply(spec, fence=Fence(1, 1))
            return len(rig.cluster.observe(spec.name)) == 2

        eventually(applied)
        after, same = ready(rig.cluster, spec)
    assert (after.id, same.pid) == (before.id, other.pid)
    assert after.port not in (before.port, other.port)


def bound(sock: socket.socket, port: int) -> bool:
    try:
        sock.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def test_a_port_is_not_given_out_again_at_once(rig: EmbeddedRig) -> None:
    first, second = wish(replicas=1), wish(replicas=1)
    rig.cluster.apply(first, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, first)
    rig.cluster.remove(first.name, fence=Fence(1, 2))
    eventually(lambda: rig.cluster.observe(first.name) == ())

    rig.cluster.apply(second, fence=Fence(1, 1))

    assert ready(rig.cluster, second)[0].port != before.port


def test_a_range_without_a_free_port_is_told_and_nothing_is_kept(rig: EmbeddedRig) -> None:
    narrow = rig.cluster_at(rig.home.path, ports=(PORTS[0], PORTS[1]))

    with pytest.raises(CannotRun, match="SLIPWAY_WORKER_PORTS"):
        narrow.apply(wish(name="too-many", replicas=5), fence=Fence(1, 1))

    assert rig.cluster.observe("too-many") == ()


def test_a_worker_that_drains_is_seen_until_it_has_ended(rig: EmbeddedRig) -> None:
    spec = wish(replicas=1, settings={"drains_seconds": 1})
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, spec)

    rig.cluster.remove(spec.name, fence=Fence(1, 2))

    (draining,) = rig.cluster.observe(spec.name)
    assert (draining.state, draining.port) == (ObservedState.DRAINING, before.port)
    eventually(lambda: rig.cluster.observe(spec.name) == ())


def test_a_worker_that_hangs_is_not_ready(rig: EmbeddedRig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (worker,) = ready(rig.cluster, spec)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        (seen,) = rig.cluster.observe(spec.name)
    finally:
        os.kill(worker.pid, signal.SIGCONT)

    assert seen.state == ObservedState.STARTING
    assert "does not answer within 1 s" in seen.reason


def test_one_crash_is_no_failure(rig: EmbeddedRig) -> None:
    spec = wish(replicas=1)
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, spec)
    states = set()
    rig.kill(before)

    def back() -> bool:
        (seen,) = rig.cluster.observe(spec.name)
        states.add(seen.state)
        return seen.state == ObservedState.READY and seen.pid != before.pid

    eventually(back)
    assert ObservedState.FAILED not in states


def test_an_order_that_stopped_half_way_is_carried_out_by_the_next(
    rig: EmbeddedRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = wish(replicas=2)

    def lost(*_: object) -> None:
        raise SupervisorUnreachable("cut")

    with monkeypatch.context() as cut:
        cut.setattr(rig.cluster._supervisor, "add", lost)
        with pytest.raises(ClusterUnreachable):
            rig.cluster.apply(spec, fence=Fence(1, 1))

    rig.cluster.apply(spec, fence=Fence(1, 2))

    ready(rig.cluster, spec)


def test_of_writers_at_the_same_time_the_last_fence_wins(rig: EmbeddedRig) -> None:
    spec = wish(replicas=0)
    outcomes: dict[int, str] = {}

    def write(turn: int) -> None:
        try:
            rig.cluster.apply(replace(spec, replicas=turn % 3), fence=Fence(1, turn))
            outcomes[turn] = "done"
        except StaleDeploymentFence:
            outcomes[turn] = "stale"

    threads = [threading.Thread(target=write, args=(turn,)) for turn in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outcomes[8] == "done"
    final = replace(spec, replicas=2)
    eventually(lambda: bool(rig.cluster.apply(final, fence=Fence(1, 8)) or rig.cluster.observe(spec.name)))
    assert len(ready(rig.cluster, final)) == 2


def test_a_real_worker_answers(rig: EmbeddedRig) -> None:
    cluster = rig.cluster_at(
        rig.home.path, argv=lambda command: command.argv(sys.executable), bring_files=lambda _: PROJECT
    )
    spec = wish(replicas=1)

    cluster.apply(spec, fence=Fence(1, 1))

    (worker,) = ready(cluster, spec, seconds=60)
    assert worker.reason == ""
    cluster.remove(spec.name, fence=Fence(1, 2))
    eventually(lambda: cluster.observe(spec.name) == ())


def test_workers_are_spread_over_the_gpus(
    unstarted: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = tuple(
        ObservedGpu(uuid=f"GPU-{index}", index=index, name="GPU", memory_bytes=2**30) for index in (0, 1)
    )
    monkeypatch.setattr(slots, "gpus", lambda: pair)
    monkeypatch.setattr(unstarted, "_processes", dict)
    monkeypatch.setattr(unstarted, "_carry_out", lambda *_: None)

    unstarted.apply(wish(name="big", replicas=3), fence=Fence(1, 1))
    unstarted.apply(wish(name="small", replicas=1), fence=Fence(1, 1))
    unstarted.apply(wish(name="none", replicas=1, device="cpu"), fence=Fence(1, 1))

    big = unstarted._desired.load("big")
    assert big is not None
    assert [big.slots[ordinal].gpus for ordinal in range(3)] == [(0,), (1,), (0,)]
    small, none = unstarted._desired.load("small"), unstarted._desired.load("none")
    assert small is not None
    assert small.slots[0].gpus == (1,)
    assert none is not None
    assert none.slots[0].gpus == ()
    assert 'CUDA_VISIBLE_DEVICES="1"' in unstarted._programs(small, [0])["small-0"].render()


def test_a_worker_with_several_gpus_gets_them_all(
    unstarted: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = tuple(
        ObservedGpu(uuid=f"GPU-{index}", index=index, name="GPU", memory_bytes=2**30) for index in range(4)
    )
    monkeypatch.setattr(slots, "gpus", lambda: four)
    monkeypatch.setattr(unstarted, "_processes", dict)
    monkeypatch.setattr(unstarted, "_carry_out", lambda *_: None)

    unstarted.apply(wish(name="big", replicas=2, resources=Resources(gpus=2)), fence=Fence(1, 1))

    big = unstarted._desired.load("big")
    assert big is not None
    assert [big.slots[ordinal].gpus for ordinal in range(2)] == [(0, 1), (2, 3)]
    assert 'CUDA_VISIBLE_DEVICES="2,3"' in unstarted._programs(big, [1])["big-1"].render()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"placement": Placement(namespace="prod")}, "this machine has no namespaces"),
        ({"placement": Placement(node_selector={"zone": "b"})}, "has no label zone"),
        ({"placement": Placement(spread=(Spread(topology_key="zone", is_required=True),))}, "by zone"),
        ({"resources": Resources(cpus=10_000)}, "needs 10000 CPUs a worker"),
        ({"resources": Resources(memory_bytes=2**60)}, "bytes of memory a worker"),
    ],
)
def test_what_this_machine_cannot_honour_is_refused_in_words(
    unstarted: EmbeddedCluster, fields: dict[str, Any], fault: str
) -> None:
    with pytest.raises(CannotRun, match=fault):
        unstarted.apply(wish(**fields), fence=Fence(1, 1))


def test_a_selector_that_this_machine_meets_is_honoured_and_all_outlives_a_restart(
    unstarted: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unstarted, "_processes", dict)
    monkeypatch.setattr(unstarted, "_carry_out", lambda *_: None)
    selector = {"kubernetes.io/hostname": machine.machine_name()}
    tolerations = (Toleration(key="gpu", effect=TaintEffect.NO_SCHEDULE), Toleration())
    spread = (Spread(topology_key="kubernetes.io/hostname", is_required=True),)
    spec = wish(
        placement=Placement(node_selector=selector, tolerations=tolerations, spread=spread),
        resources=Resources(gpus=2, cpus=0.5),
    )

    unstarted.apply(spec, fence=Fence(1, 1))

    kept = unstarted._desired.load(spec.name)
    assert kept is not None
    assert (kept.spec, kept.model_dir) == (spec, PROJECT)


def test_adapters_reach_workers_that_run_by_a_file_of_their_deployment(rig: EmbeddedRig) -> None:
    spec = wish(replicas=1, engine="transformers")
    rig.cluster.apply(spec, fence=Fence(1, 1))
    (before,) = ready(rig.cluster, spec)
    command = Path(f"/proc/{before.pid}/cmdline").read_bytes().decode().split("\0")
    file = Path(next(one for one in command if one.startswith("--adapters-file=")).partition("=")[2])
    assert json.loads(file.read_bytes()) == {}
    pirate = replace(spec, adapters={"pirate": ModelVersion(id=2, label="pirate:v1")})
    rig.cluster.apply(pirate, fence=Fence(1, 2))
    assert json.loads(file.read_bytes()) == {"pirate": {"version": "pirate:v1", "directory": "/models/tiny"}}
    assert ready(rig.cluster, spec)[0].pid == before.pid
    rig.restart()
    assert json.loads(file.read_bytes()).keys() == {"pirate"}  # before anybody applies anything
    rig.cluster.remove(spec.name, fence=Fence(1, 3))
    assert not file.exists()
