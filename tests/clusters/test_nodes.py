"""A person cordons a machine: one operation at a time, through its row, and everybody sees who and why."""

from datetime import timedelta

import pytest
from django.utils import timezone

from clusters.backends.fake import NODE, FakeClusterBackend
from clusters.backends.node_operations import NodeCommand
from clusters.errors import NodeBusy, OperationNotAllowed
from clusters.models import Deployment, Node
from clusters.reconcilers.nodes import OperateNode
from clusters.services.nodes import cordon_node, uncordon_node
from clusters.states import DeploymentState, NodeState
from common.actor import Actor
from common.fence import Fence
from common.models import AuditRecord
from common.reconcile import LeaseLost, Operation, kernel
from tests.cast import api, client_of, person
from tests.clusters.world import Scene

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")
REASON = "GPU 0 is to be replaced."


class Machines(Scene):
    """A cluster whose machine shows what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.world.nodes = lambda: FakeClusterBackend.nodes(self.world)  # type: ignore[method-assign]
        self.cluster.team = self.team
        self.cluster.next_at = self.clock()
        self.cluster.save()
        self.pass_(1)

    @property
    def node(self) -> Node:
        return Node.objects.select_related("cluster__team").get(uid=NODE.uid)

    @property
    def path(self) -> str:
        return f"clusters/local/nodes/{self.node.pk}/"


@pytest.fixture
def scene() -> Machines:
    return Machines()


def test_a_cordoned_machine_gets_no_new_workers_and_keeps_those_that_run(scene: Machines) -> None:
    scene.deployment("runs")
    scene.pass_(2)
    operator = api(person("ada", vision="operator"))

    answer = operator.post(f"{scene.path}cordon/", {"reason": REASON})
    assert (answer.status_code, answer.json()["operation"], answer.json()["operation_by"]) == (
        202,
        "cordon",
        "ada",
    )
    scene.pass_(2)
    shown = operator.get(scene.path).json()
    assert (shown["is_cordoned"], shown["cordoned_by"], shown["cordon_reason"], shown["operation"]) == (
        True,
        "ada",
        REASON,
        "",
    )
    scene.deployment("late")
    scene.pass_(3)
    runs, late = (Deployment.objects.get(name=name) for name in ("runs", "late"))
    assert (runs.state, runs.workers.count()) == (DeploymentState.READY, 2)
    assert (late.state, late.workers.count()) == (DeploymentState.FAILING, 0)
    assert "cordoned" in late.reason

    # Somebody else takes it back: what a person did is every operator's to undo.
    answer = api(person("bob", vision="operator")).post(f"{scene.path}uncordon/", {"reason": "It is new."})
    assert answer.status_code == 202
    scene.pass_(5)
    late.refresh_from_db()
    assert (scene.node.is_cordoned, late.state) == (False, DeploymentState.READY)
    said = AuditRecord.objects.filter(action__startswith="node.").order_by("pk")
    assert list(said.values_list("action", "actor", "reason")) == [
        ("node.cordon", "ada", REASON),
        ("node.uncordon", "bob", "It is new."),
    ]


def test_a_machine_has_one_operation_at_a_time(scene: Machines) -> None:
    stale = scene.node
    cordon_node(actor=SYSTEM, node=scene.node, reason=REASON)
    for _ in range(2):
        with pytest.raises(NodeBusy, match="test ordered cordon just before"):
            cordon_node(actor=SYSTEM, node=stale, reason="I was second.")
    answer = api(person("ada", vision="operator")).post(f"{scene.path}cordon/", {"reason": "Third."})
    assert answer.status_code == 409
    scene.pass_(2)
    assert scene.node.cordon_reason == REASON
    # What was read before it was done changes nothing either.
    with pytest.raises(NodeBusy, match="at the same moment"):
        cordon_node(actor=SYSTEM, node=stale, reason="I am late.")


def test_a_writer_that_slept_is_refused_by_the_machine(scene: Machines) -> None:
    cordon_node(actor=SYSTEM, node=scene.node, reason=REASON)
    asleep = scene.node
    held = Operation("op", fence=asleep.fence + 1, at=scene.clock())
    kernel.interrupt(scene.node)
    kernel.interrupt(scene.node)
    scene.pass_(2)
    uncordon_node(actor=SYSTEM, node=scene.node, reason="Done.")
    scene.pass_(2)

    with pytest.raises(LeaseLost):
        OperateNode(lambda _cluster: scene.world).act(asleep, held)
    assert scene.world.node_operations.cordoned == {}


def test_what_the_machine_refuses_is_told_and_frees_its_row(scene: Machines) -> None:
    cordon_node(actor=SYSTEM, node=scene.node, reason=REASON)
    scene.world.node_operations.cordon(NODE.uid, NodeCommand("other", Fence(0, 1), "gpu-health", "XID 79"))
    scene.pass_(2)
    node = scene.node
    assert (node.operation, node.cordoned_by) == ("", "gpu-health")
    assert "gpu-health has cordoned" in node.operation_problem
    assert AuditRecord.objects.filter(action="node.cordon.refused").exists()
    with pytest.raises(OperationNotAllowed, match="cordoned already, by gpu-health: XID 79"):
        cordon_node(actor=SYSTEM, node=node, reason=REASON)


def test_an_order_waits_for_a_cluster_that_is_away(scene: Machines) -> None:
    scene.world.reachable = False
    cordon_node(actor=SYSTEM, node=scene.node, reason=REASON)
    scene.pass_(10, by=2)
    assert scene.node.operation == "cordon"
    scene.world.reachable = True
    scene.clock.pass_(timedelta(minutes=2))
    scene.pass_(2)
    assert (scene.node.operation, scene.node.is_cordoned) == ("", True)


def test_what_makes_no_sense_is_said(scene: Machines) -> None:
    operator = api(person("ada", vision="operator"))
    answer = operator.post(f"{scene.path}cordon/", {"reason": "  "})
    assert (answer.status_code, list(answer.json()["errors"])) == (400, ["reason"])
    assert operator.post(f"{scene.path}uncordon/", {"reason": "x"}).status_code == 409
    Node.objects.update(state=NodeState.GONE, state_since=timezone.now())
    answer = operator.post(f"{scene.path}cordon/", {"reason": "x"})
    assert (answer.status_code, "no machine fake-node any more" in answer.json()["detail"]) == (409, True)


def test_the_page_shows_who_cordoned_it_and_lets_operators_take_it_back(scene: Machines) -> None:
    cordon_node(actor=SYSTEM, node=scene.node, reason=REASON)
    scene.pass_(2)
    page = f"/fleet/nodes/{scene.node.pk}/"
    viewer, operator = client_of(person("vi", vision="viewer")), client_of(person("ada", vision="operator"))
    for client in (viewer, operator):
        shown = client.get(page).content.decode()
        assert REASON in shown
        assert "Those that run go on" in shown
        assert "ask-cordon" not in shown
        assert ("ask-uncordon" in shown) == (client is operator)
        listed = client.get("/fleet/").content.decode()
        assert REASON in listed
        assert f'href="{page}"' in listed
    assert client_of(person("eve", speech="admin")).get(page).status_code == 404
    viewer.post(f"{page}+uncordon/", {"reason": "x"})
    scene.pass_(2)
    assert scene.node.is_cordoned
    operator.post(f"{page}+uncordon/", {"reason": "It is new."})
    scene.pass_(2)
    assert not scene.node.is_cordoned
