"""A machine is drained: the gateways first, budgets respected, and a cordon of a person stays theirs."""

from typing import Any

import pytest
from django.utils import timezone

from clusters import selectors
from clusters.backends.fake import NODE
from clusters.backends.observed_pods import ObservedPod, PodPhase
from clusters.draining.options import DrainOptions, NamespacePolicy, PodPolicy
from clusters.errors import DrainEnded, NodeBusy
from clusters.models import Drain, Worker
from clusters.services.drains import cancel_drain, drain_node
from clusters.services.nodes import cordon_node, uncordon_node
from clusters.states import DrainState
from common.actor import Actor
from common.errors import Invalid
from common.models import AuditRecord
from tests.cast import api, client_of, person
from tests.clusters.test_nodes import Machines

pytestmark = pytest.mark.django_db
SYSTEM = Actor.system("test")
REASON = "GPU 0 is to be replaced."


class Draining(Machines):
    def drain(self, **options: Any) -> Drain:
        row = drain_node(actor=SYSTEM, node=self.node, reason=REASON, options=DrainOptions(**options))
        Drain.objects.filter(pk=row.pk).update(asked_at=self.clock(), next_at=self.clock())
        return row

    def stands(self, name: str, **fields: Any) -> None:
        """A pod of somebody else's on the machine."""
        given = {"uid": f"uid-{name}", "namespace": "theirs", "node": NODE.name, "owner": "ReplicaSet x"}
        self.operations.others.append(ObservedPod(name=name, **given | fields))

    @property
    def operations(self) -> Any:
        return self.world.node_operations

    def now(self, row: Drain) -> Drain:
        row.refresh_from_db()
        return row

    def evicted(self) -> set[str]:
        return {name for name, _ in self.operations.evictions}


@pytest.fixture
def scene() -> Draining:
    return Draining()


def fates(row: Drain) -> dict[str, str]:
    return {one["name"]: one["fate"] for one in row.pods}


def test_a_drained_machine_is_cordoned_and_nothing_that_was_to_go_is_left(scene: Draining) -> None:
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.stands("theirs-1", gpus={"nvidia.com/gpu": 1})
    scene.stands("exporter", owner="DaemonSet exporter", is_daemon=True)
    scene.stands("static", is_mirror=True)
    scene.stands("done", owner="", phase=PodPhase.SUCCEEDED)
    row = scene.drain()
    scene.pass_(10)

    row = scene.now(row)
    assert (row.state, row.problem, row.has_cordoned) == (DrainState.DRAINED, "", True)
    assert fates(row) == {
        "chat-v1-0": "gone",
        "chat-v1-1": "gone",
        "theirs-1": "gone",
        "done": "gone",
        "exporter": "left",
        "static": "left",
    }
    assert (scene.node.is_cordoned, scene.node.cordon_reason) == (True, REASON)
    assert not scene.evicted() & {"exporter", "static"}
    said = AuditRecord.objects.filter(action__startswith="node.drain").order_by("pk")
    assert list(said.values_list("action", flat=True)) == [
        "node.drain",
        "node.drain.replacing",
        "node.drain.turning_away",
        "node.drain.evicting",
        "node.drain.drained",
    ]


def test_the_gateway_is_told_before_the_first_worker_has_to_leave(scene: Draining) -> None:
    row_of = scene.deployment("chat-v1")
    scene.pass_(2)
    Worker.objects.filter(name="chat-v1-1").update(node=None)
    scene.operations.budgets["chat-v1"] = "chat needs its workers"
    before = selectors.endpoints("chat-v1")
    row = scene.drain()
    scene.pass_(1)
    assert scene.now(row).state == DrainState.EVICTING
    assert scene.evicted() == set()
    # Both stand there; while no other is ready, they are sent what comes.
    assert selectors.endpoints("chat-v1").addresses == before.addresses
    Worker.objects.filter(name="chat-v1-1").update(leaves_with=None)
    seen = selectors.endpoints("chat-v1")
    assert len(seen.addresses) == 1
    assert seen.observed_at > before.observed_at
    scene.pass_(3)
    assert "chat-v1-0" in scene.evicted()

    cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Not today.")
    scene.pass_(3)
    assert selectors.endpoints("chat-v1").addresses == before.addresses
    row_of.refresh_from_db()
    assert row_of.state == "ready"


def test_a_budget_holds_a_pod_back_until_it_allows(scene: Draining) -> None:
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.operations.budgets["chat-v1"] = "The budget chat needs 2 and has 2"
    row = scene.drain()
    scene.pass_(20)
    row = scene.now(row)
    assert (row.state, row.problem) == (DrainState.EVICTING, "The budget chat needs 2 and has 2")
    asked = len(scene.operations.evictions)
    assert 2 <= asked <= 8, "it backs off"
    looks: list[str] = []
    pods = scene.operations.pods
    scene.operations.pods = lambda node: looks.append(node) or pods(node)
    scene.pass_(60)
    assert len(looks) <= 20, "its looks back off, too"
    scene.operations.budgets.clear()
    scene.pass_(70)
    assert scene.now(row).state == DrainState.DRAINED


def test_after_its_time_it_has_failed_and_names_what_is_left(scene: Draining) -> None:
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.operations.budgets["chat-v1"] = "The budget chat needs 2 and has 2"
    row = scene.drain(within_seconds=30)
    scene.pass_(40)
    row = scene.now(row)
    assert row.state == DrainState.FAILED
    assert "chat-v1-0 (The budget chat needs 2 and has 2)" in row.problem
    assert scene.node.is_cordoned, "whoever looks into it finds it as it was left"
    assert not Worker.objects.exclude(leaves_with=None).exists()


def test_what_would_be_lost_stops_it_before_anything_has_left(scene: Draining) -> None:
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.stands("notebook", owner="")
    row = scene.drain()
    scene.pass_(5)
    row = scene.now(row)
    assert (row.state, scene.evicted()) == (DrainState.FAILED, set())
    assert "theirs/notebook: No controller recreates it elsewhere" in row.problem
    row = scene.drain(unowned_may_go=True)
    scene.pass_(10)
    assert scene.now(row).state == DrainState.DRAINED


def test_namespaces_may_be_left_or_given_time_to_finish(scene: Draining) -> None:
    scene.stands("job", namespace="batch")
    scene.stands("keeps", namespace="kept")
    row = scene.drain(
        namespaces={
            "batch": NamespacePolicy(PodPolicy.FINISH, within_seconds=60),
            "kept": NamespacePolicy(PodPolicy.LEAVE),
        },
    )
    scene.pass_(30)
    assert scene.now(row).state == DrainState.EVICTING
    assert fates(row) == {"job": "waited_for", "keeps": "left"}
    scene.pass_(40)
    assert scene.now(row).state == DrainState.DRAINED
    assert scene.evicted() == {"job"}


def test_only_pods_with_gpus_leave_if_that_was_asked_for(scene: Draining) -> None:
    scene.stands("web")
    scene.stands("training", gpus={"nvidia.com/gpu": 8})
    row = scene.drain(gpu_pods_only=True, grace_seconds=90)
    scene.pass_(10)
    assert (scene.now(row).state, fates(row)) == (DrainState.DRAINED, {"web": "left", "training": "gone"})
    assert scene.operations.evictions == [("training", 90)]


def test_a_cancelled_drain_takes_back_its_own_cordon(scene: Draining) -> None:
    scene.stands("stays")
    scene.operations.drains_at_once = False
    row = scene.drain()
    scene.pass_(4)
    assert scene.node.is_cordoned
    cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Wrong machine.")
    scene.pass_(3)
    assert (scene.now(row).state, scene.node.is_cordoned) == (DrainState.CANCELLED, False)
    asked = len(scene.operations.evictions)
    scene.pass_(20)
    assert len(scene.operations.evictions) == asked
    cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Twice is no error.")
    Drain.objects.update(state=DrainState.DRAINED)
    with pytest.raises(DrainEnded, match="it is drained"):
        cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Too late.")


@pytest.mark.parametrize("ends", ["cancelled", "failed", "drained"])
def test_a_cordon_that_a_person_had_set_before_stays_theirs(scene: Draining, ends: str) -> None:
    cordon_node(actor=Actor.system("ada"), node=scene.node, reason="It is mine.")
    scene.pass_(2)
    scene.stands("theirs", owner="" if ends == "failed" else "ReplicaSet x")
    scene.operations.drains_at_once = ends == "drained"
    row = scene.drain()
    scene.pass_(5)
    if ends == "cancelled":
        cancel_drain(actor=SYSTEM, drain=scene.now(row), reason="Not today.")
        scene.pass_(5)
    assert (scene.now(row).state, scene.now(row).has_cordoned) == (ends, False)
    assert (scene.node.cordoned_by, scene.node.cordon_reason) == ("ada", "It is mine.")


def test_who_uncordons_the_machine_elsewhere_ends_the_drain(scene: Draining) -> None:
    scene.stands("slow")
    scene.operations.drains_at_once = False
    row = scene.drain()
    scene.pass_(4)
    scene.operations.cordoned.clear()
    scene.pass_(2)
    assert (scene.now(row).state, "Somebody uncordoned" in row.problem) == (DrainState.FAILED, True)


def test_a_machine_has_one_drain_and_no_other_operation_beside_it(scene: Draining) -> None:
    row = scene.drain()
    for order in (scene.drain, lambda: cordon_node(actor=SYSTEM, node=scene.node, reason="x")):
        with pytest.raises(NodeBusy, match="is being drained: test ordered it"):
            order()
    scene.pass_(5)
    assert scene.now(row).state == DrainState.DRAINED
    uncordon_node(actor=SYSTEM, node=scene.node, reason="Repaired.")
    scene.pass_(3)
    assert not scene.node.is_cordoned


def test_the_same_operation_orders_it_once(scene: Draining) -> None:
    first, second = (
        drain_node(actor=SYSTEM, node=scene.node, reason=REASON, op_key="incident:1") for _ in range(2)
    )
    assert first.pk == second.pk


def test_a_cluster_that_is_away_is_waited_for(scene: Draining) -> None:
    scene.stands("theirs-1")
    row = scene.drain()
    scene.world.reachable = False
    scene.pass_(20)
    row = scene.now(row)
    assert (row.state, row.stuck_at) == (DrainState.CORDONING, None)
    scene.world.reachable = True
    scene.pass_(70)
    assert scene.now(row).state == DrainState.DRAINED


def test_a_drain_whose_cluster_was_removed_ends(scene: Draining) -> None:
    scene.stands("slow")
    scene.operations.drains_at_once = False
    row = scene.drain()
    scene.pass_(3)
    scene.cluster.removed_at = timezone.now()
    scene.cluster.save()
    scene.pass_(3)
    assert (scene.now(row).state, row.problem) == (DrainState.FAILED, "The cluster local was removed.")


def test_what_cannot_be_meant_is_said(scene: Draining) -> None:
    for options, field in (
        ({"within_seconds": 0}, "within_seconds"),
        ({"grace_seconds": 0}, "grace_seconds"),
        ({"namespaces": {"a": NamespacePolicy(within_seconds=-1)}}, "namespaces"),
    ):
        with pytest.raises(Invalid) as refusal:
            scene.drain(**options)
        assert field in refusal.value.fields
    with pytest.raises(Invalid, match="Give a reason"):
        drain_node(actor=SYSTEM, node=scene.node, reason=" ")


def test_a_drain_is_previewed_ordered_watched_and_cancelled_over_rest(
    scene: Draining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.services.drains.backend_of", lambda _cluster: scene.world)
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.stands("notebook", owner="", local_data=("home",))
    scene.operations.drains_at_once = False
    operator = api(person("ada", vision="operator"))
    shown = operator.post(f"{scene.path}drain-preview/", {}).json()
    assert shown["counts"] == {"stops": 1, "evicted": 2}
    assert "theirs/notebook: No controller recreates it elsewhere" in shown["problem"]
    assert shown["deployments"] == [
        {
            "name": "chat-v1",
            "service": "chat",
            "version": "story:v1",
            "leaving": 2,
            "ready_elsewhere": 0,
            "note": "",
        }
    ]
    options = {"unowned_may_go": True, "local_data_may_go": True}
    assert operator.post(f"{scene.path}drain-preview/", options).json()["problem"] == ""
    assert scene.operations.evictions == []

    viewer = api(person("vi", vision="viewer"))
    assert viewer.post(f"{scene.path}drain/", {"reason": REASON}).status_code == 403
    assert operator.post(f"{scene.path}drain/", {"grace_seconds": -3, "reason": "x"}).status_code == 400
    answer = operator.post(f"{scene.path}drain/", {**options, "reason": REASON})
    assert (answer.status_code, answer.json()["state"]) == (202, "cordoning")
    scene.pass_(5)
    path = f"clusters/local/drains/{answer.json()['id']}/"
    shown = viewer.get(path).json()
    assert (shown["state"], {one["fate"] for one in shown["pods"]}) == ("evicting", {"leaving", "evicted"})
    listed = viewer.get("clusters/local/drains/?state=evicting").json()["results"]
    assert [one["id"] for one in listed] == [shown["id"]]
    assert operator.post(f"{path}cancel/", {}).status_code == 400
    assert operator.post(f"{path}cancel/", {"reason": "Not today."}).status_code == 202
    scene.pass_(3)
    assert viewer.get(path).json()["state"] == "cancelled"
    assert operator.post(f"{path}cancel/", {"reason": "Again."}).status_code == 202


def test_a_drain_is_previewed_ordered_and_cancelled_in_the_browser(
    scene: Draining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.services.drains.backend_of", lambda _cluster: scene.world)
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.stands("notebook", owner="")
    scene.operations.drains_at_once = False
    ada, node = client_of(person("ada", vision="operator")), f"/fleet/nodes/{scene.node.pk}/"
    assert f"{node}+drain/" in ada.get(node).content.decode()
    shown = ada.get(f"{node}+drain/").content.decode()
    assert "It cannot be drained with these options." in shown
    assert "Service down until new workers are ready elsewhere. No other machine takes pods." in shown
    shown = ada.get(f"{node}+drain/?within_minutes=5&unowned_may_go=on").content.decode()
    assert "theirs/notebook" in shown
    assert "It cannot be drained" not in shown
    assert not Drain.objects.exists()
    wishes = {"within_minutes": 5, "unowned_may_go": "on"}
    assert ada.post(f"{node}+drain/", wishes).status_code == 422
    answer = ada.post(f"{node}+drain/", {**wishes, "reason": REASON})
    row = Drain.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/fleet/drains/{row.pk}/")
    scene.pass_(5)
    shown = ada.get(f"/fleet/drains/{row.pk}/").content.decode()
    assert REASON in shown
    assert "ask-cancel" in shown
    viewer = client_of(person("vi", vision="viewer"))
    closed = viewer.get(f"{node}+drain/").content.decode()
    assert "You may not drain this machine." in closed
    assert "<button" not in closed.split('id="content"')[1].split("What would happen")[0]
    assert "ask-cancel" not in viewer.get(f"/fleet/drains/{row.pk}/").content.decode()
    assert client_of(person("eve", speech="admin")).get(f"/fleet/drains/{row.pk}/").status_code == 404
    ada.post(f"/fleet/drains/{row.pk}/+cancel/", {"reason": "Wrong machine."})
    scene.pass_(3)
    assert scene.now(row).state == DrainState.CANCELLED


def test_the_page_of_a_failed_drain_says_that_the_machine_stays_cordoned(scene: Draining) -> None:
    scene.deployment("chat-v1")
    scene.pass_(2)
    scene.stands("notebook", owner="")
    row = scene.drain()
    scene.pass_(5)
    assert scene.now(row).state == DrainState.FAILED

    shown = client_of(person("ada", vision="operator")).get(f"/fleet/drains/{row.pk}/").content.decode()

    assert "The machine stays cordoned" in shown
    assert f'<a href="/fleet/nodes/{scene.node.pk}/">Go to' in shown
