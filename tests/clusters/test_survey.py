"""A cluster's machines are those that its backend sees."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from clusters import selectors
from clusters.agents import AgentContact
from clusters.backends.base import CordonMark, NodeCondition, ObservedGpu, UnreadNode
from clusters.backends.fake import NODE
from clusters.backends.placement import Taint, TaintEffect
from clusters.events import AgentSilent, WorkerLost
from clusters.health import clusters_health
from clusters.inbox import silent_relays
from clusters.models import Cluster, Gpu, Node, Worker
from clusters.reconcilers.inventory import ObservedCluster, record_machines
from clusters.states import GpuState, NodeState
from common import events
from common.health import Unhealthy
from tests.cast import SYSTEM
from tests.clusters.world import Scene

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    Cluster.objects.filter(pk=scene.cluster.pk).update(next_at=scene.clock())
    return scene


@pytest.fixture
def published():
    """The events of a kind, in order."""
    heard: list[object] = []
    for kind in (AgentSilent, WorkerLost):
        events.witness(kind, heard.append)
    return lambda kind: [one for one in heard if isinstance(one, kind)]


def test_machines_and_gpus_are_written_once_and_then_only_when_something_changed(
    scene, django_assert_max_num_queries
) -> None:
    scene.pass_(1)
    node = Node.objects.get()
    assert (node.name, node.cpu_count, node.state) == (NODE.name, NODE.cpu_count, NodeState.READY)
    assert [gpu.name for gpu in node.gpus.all()] == ["Fake GPU"]
    scene.pass_(10)
    assert Node.objects.get().seen_at == node.seen_at
    scene.pass_(60)
    assert Node.objects.get().seen_at > node.seen_at


def test_a_look_at_machines_that_are_as_they_were_reads_no_row_of_them(
    scene, django_assert_max_num_queries
) -> None:
    machines = [
        replace(NODE, uid=f"n{number}", gpus=(replace(NODE.gpus[0], uuid=f"GPU-{number}"),))
        for number in range(30)
    ]
    seen = ObservedCluster.of(machines)
    with django_assert_max_num_queries(8):
        assert record_machines(scene.cluster, seen, scene.clock())
    with django_assert_max_num_queries(2):
        assert not record_machines(scene.cluster, seen, scene.clock())
    assert Gpu.objects.count() == 30
    assert record_machines(scene.cluster, ObservedCluster("away", None), scene.clock())
    with django_assert_max_num_queries(8):
        assert record_machines(scene.cluster, seen, scene.clock())
    assert set(Node.objects.values_list("state", flat=True)) == {NodeState.READY}
    assert set(Gpu.objects.values_list("state", flat=True)) == {GpuState.PRESENT}


def test_a_cordon_that_others_wrote_into_the_row_gives_way_to_what_is_seen(scene) -> None:
    scene.pass_(1)
    Node.objects.update(is_cordoned=True, cordoned_by="somebody")
    scene.pass_(11)
    assert not Node.objects.get().is_cordoned


def test_another_gpu_is_noticed(scene) -> None:
    scene.pass_(1)
    scene.world.machines = (
        replace(NODE, gpus=(*NODE.gpus, ObservedGpu(uuid="GPU-b", index=1, name="B", memory_bytes=1))),
    )
    scene.pass_(11)
    assert list(Gpu.objects.values_list("name", flat=True)) == ["Fake GPU", "B"]


def test_a_machine_that_the_cluster_does_not_have_any_more_is_gone_and_the_same_row_when_it_is_back(
    scene,
) -> None:
    scene.pass_(1)
    node, gpu = Node.objects.get(), Gpu.objects.get()
    scene.world.machines = ()
    scene.pass_(11)
    gone = Node.objects.get()
    assert (gone.pk, gone.state) == (node.pk, NodeState.GONE)
    assert gone.state_since > node.state_since
    assert gone.seen_at == node.seen_at
    assert Gpu.objects.get().state == GpuState.GONE

    scene.world.machines = (replace(NODE, name="renamed", boot_id="second-boot"),)
    scene.pass_(11)

    back = Node.objects.get()
    assert (back.pk, back.state, back.name, back.boot_id) == (
        node.pk,
        NodeState.READY,
        "renamed",
        "second-boot",
    )
    assert [(one.pk, one.state) for one in Gpu.objects.all()] == [(gpu.pk, GpuState.PRESENT)]


def test_another_machine_of_the_same_name_is_another_row(scene) -> None:
    scene.pass_(1)
    scene.world.machines = (replace(NODE, uid="another", gpus=()),)
    scene.pass_(11)
    assert dict(Node.objects.values_list("uid", "state")) == {NODE.uid: "gone", "another": "ready"}


def test_a_gpu_that_moves_to_another_machine_keeps_its_row(scene) -> None:
    scene.pass_(1)
    before = Gpu.objects.get()
    (card,) = NODE.gpus
    other = replace(NODE, uid="other", name="other", gpus=(replace(card, index=3),))
    scene.world.machines = (replace(NODE, gpus=()), other)
    scene.pass_(11)
    after = Gpu.objects.get()
    assert (after.pk, after.node.name, after.index, after.state) == (
        before.pk,
        "other",
        3,
        GpuState.PRESENT,
    )


def test_a_machine_that_cannot_be_read_is_unknown_alone(scene) -> None:
    other = replace(NODE, uid="other", name="other", gpus=())
    scene.world.machines = (NODE, other)
    scene.pass_(1)
    scene.world.machines = (UnreadNode(uid=NODE.uid, name=NODE.name, problem="its kubelet is silent"), other)
    scene.pass_(11)
    silent = Node.objects.get(uid=NODE.uid)
    assert (silent.state, silent.problem) == (NodeState.UNKNOWN, "its kubelet is silent")
    assert silent.cpu_count == NODE.cpu_count
    assert silent.gpus.get().state == GpuState.UNKNOWN
    assert Node.objects.get(uid="other").state == NodeState.READY
    assert Cluster.objects.get().problem == ""


def test_gpus_that_cannot_be_read_are_not_gone(scene) -> None:
    scene.pass_(1)
    scene.world.machines = (replace(NODE, gpus=None, problem="Its GPUs cannot be read: nvidia-smi hangs"),)
    scene.pass_(11)
    node = Node.objects.get()
    assert (node.state, node.problem) == (NodeState.READY, "Its GPUs cannot be read: nvidia-smi hangs")
    assert node.gpus.get().state == GpuState.UNKNOWN


def test_what_a_machine_says_of_itself_is_kept(scene) -> None:
    scene.world.machines = (
        replace(
            NODE,
            conditions=(NodeCondition("Ready", "Unknown", "NodeStatusUnknown", "Kubelet stopped posting."),),
            taints=(Taint("gpu", TaintEffect.NO_SCHEDULE, "reserved"),),
            cordon=CordonMark("ada", "GPU 0 is to be replaced.", scene.clock()),
            provider_id="aws:///i-1",
        ),
    )
    scene.pass_(1)
    node = Node.objects.get()
    assert node.state == NodeState.NOT_READY
    assert node.taints == [{"key": "gpu", "value": "reserved", "effect": "NoSchedule"}]
    assert (node.is_cordoned, node.cordoned_by, node.provider_id) == (True, "ada", "aws:///i-1")
    before = node.state_since
    scene.pass_(11)
    assert Node.objects.get().state_since == before


def test_a_cluster_that_does_not_answer_says_so_and_is_asked_again(scene) -> None:
    scene.pass_(1)
    scene.world.reachable = False
    scene.pass_(120)
    row = Cluster.objects.get()
    assert row.problem == "The fake is out of reach."
    assert row.stuck_at is None
    assert Node.objects.get().state == NodeState.UNKNOWN
    assert Gpu.objects.get().state == GpuState.UNKNOWN
    scene.world.reachable = True
    scene.pass_(11)
    assert Cluster.objects.get().problem == ""


def test_a_machine_says_since_when_its_agent_is_silent_and_tells_it_once(scene, published) -> None:
    scene.pass_(1)
    node = Node.objects.get()
    scene.agents = {node.pk: AgentContact(8, 600)}
    scene.pass_(10)
    since = Node.objects.get().agent_silent_since
    assert since is not None
    assert not published(AgentSilent)

    scene.agents = {node.pk: AgentContact(None)}
    scene.pass_(40)
    assert Node.objects.get().agent_silent_since == since
    assert published(AgentSilent) == [AgentSilent(node.pk)]

    scene.agents = {node.pk: AgentContact(0.5, 1)}
    scene.pass_(11)
    assert Node.objects.get().agent_silent_since is None


def test_a_cluster_says_when_its_relay_was_heard_and_its_silence_is_in_the_inbox(scene) -> None:
    settings = {"report_url": "https://slipway.example", "relay_image": "worker@sha256:1"}
    Cluster.objects.update(kind="kubernetes", settings=settings)
    scene.relay = AgentContact(1, 600)
    scene.pass_(11)
    row = Cluster.objects.get()
    assert row.relay_heard_at is not None
    assert (row.relay_silent_since, list(silent_relays(SYSTEM))) == (None, [])

    scene.relay = AgentContact(None)
    scene.pass_(11)
    Cluster.objects.update(relay_silent_since=timezone.now() - timedelta(minutes=2))
    (entry,) = silent_relays(SYSTEM)
    assert entry.title == "The relay of local is silent"
    scene.pass_(11)
    row = Cluster.objects.get()
    assert row.relay_silent_since is not None
    assert row.relay_heard_at is not None

    scene.relay = AgentContact(0.5, 1)
    scene.pass_(11)
    assert not list(silent_relays(SYSTEM))


def test_nobody_calls_an_agent_silent_while_reports_are_not_known(scene, published) -> None:
    scene.pass_(1)
    scene.agents = None
    scene.pass_(60)
    assert Node.objects.get().agent_silent_since is None
    assert not published(AgentSilent)


def test_workers_that_answer_go_on_serving_while_the_agent_is_silent(scene, published) -> None:
    scene.pass_(1)
    node = Node.objects.get()
    scene.deployment(replicas=2)
    scene.agents = {node.pk: AgentContact(None)}
    scene.heartbeats = {}
    scene.pass_(60)
    workers = Worker.objects.filter(state="ready", alert="")
    assert workers.count() == 2
    assert selectors.deployment_status("chat-v1").ready == 2
    assert not published(WorkerLost)

    scene.agents = {node.pk: AgentContact(0.5, 600)}
    scene.pass_(5)
    assert workers.count() == 0
    assert len(published(WorkerLost)) == 2


def test_a_cluster_that_takes_no_orders_is_in_the_picture_of_the_whole_without_its_name(scene) -> None:
    scene.pass_(1)
    assert str(clusters_health()) == "1 cluster is available"
    scene.world.reachable = False
    scene.pass_(11)
    with pytest.raises(Unhealthy, match="1 cluster is unavailable; its page says why"):
        clusters_health()
    scene.world.reachable = True
    scene.pass_(11)
    assert str(clusters_health()) == "1 cluster is available"
