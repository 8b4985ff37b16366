"""Faults are played on machines of test clusters, and what follows is followed."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from accounts.models import User
from accounts.states import Role
from clusters.backends.base import NodeCondition, ObservedNode
from clusters.backends.node_operations import NodeCommand
from clusters.models import Node
from common.actor import Actor
from common.errors import NotAllowed
from gpu_health import selectors
from gpu_health.drills.scenarios import scenarios
from gpu_health.errors import DrillRefused, InvalidDrill, NotATestCluster
from gpu_health.incident_statistics import counted
from gpu_health.models import DrillCluster, Finding, Incident, SignalReader
from gpu_health.reconcilers.signals import SignalReconciler
from gpu_health.services.drills import cancel_drill, mark_cluster, order_drill
from gpu_health.services.readings import accept_readings
from gpu_health.states import ENDED_INCIDENTS
from serving.drills.machine import read_play
from tests import cast
from tests.gpu_health.drilling import SYSTEM, DrillWard

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


def actor_of(person: User) -> Actor:
    return Actor(person.username, user_id=person.pk, via="web")


@pytest.fixture
def ward(tmp_path: Path, settings: Any) -> DrillWard:
    settings.SLIPWAY_RUN_DIR = tmp_path
    return DrillWard(tmp_path / "drill", mode="dry_run")


def test_a_dry_drill_finds_its_fault_judges_it_by_the_rules_and_touches_nothing(ward: DrillWard) -> None:
    drill = ward.play(ward.drill("xid-79"))

    assert (drill.state, drill.why) == ("passed", "Dry run: a drill that only says what would be done.")
    assert drill.report is not None
    assert drill.report["verdict"]["differences"] == []
    assert drill.report["verdict"]["found"]["ladder"] == ["reboot", "power_cycle", "replace"]
    assert drill.report["detected_seconds"] is not None
    assert not ward.operations.cordoned
    assert [one["order"] for one in ward.orders] == ["play", "play", "over"]
    assert read_play(ward.directory) is None
    assert not Finding.objects.filter(state="open").exists()
    assert (ward.incident.state, ward.incident.cancelled_by) == ("closed", "")
    assert ward.incident.reason == "The drill is over. The machine was in service all the time."


def test_a_drill_that_acts_goes_up_the_ladder_until_the_machine_is_back(ward: DrillWard) -> None:
    drill = ward.play(ward.drill("xid-74", acts=True))

    assert (drill.state, drill.why) == ("passed", "The machine is back in service.")
    states = [step["name"] for step in drill.report["steps"]]  # type: ignore[index]
    assert states.count("acting") == 2, "a reset does not help, a reboot does"
    actions = [one["action"] for one in ward.orders if one["order"] == "repair"]
    assert actions == ["reset_gpu", "reboot"]
    assert ward.operations.reboots == 0
    assert not ward.operations.cordoned
    assert not ward.operations.taints
    assert drill.report["repaired_seconds"] > drill.report["quarantined_seconds"]  # type: ignore[index]
    assert ward.incident.state == "closed"
    assert ward.incident.reason == "The drill is over, and the machine is in service."
    told = list(ward.incident.timeline.values_list("state", "words"))
    assert ("watching", f"Drill {drill.pk} is over.") in told
    assert not any("ancel" in words for _state, words in told)


def test_what_a_drill_has_played_counts_for_nothing_afterwards(ward: DrillWard) -> None:
    drill = ward.play(ward.drill("xid-48-remap", acts=True))
    told = list(Finding.objects.filter(drill=drill).values_list("state", flat=True))

    assert told
    assert set(told) <= {"cleared", "closed"}
    assert not selectors.readings_of(ward.node).exists()
    late = {
        "source": "kernel_log",
        "fault": "xid.79",
        "origin": "late/1",
        "details": {"drill": str(drill.pk)},
    }
    stored = accept_readings(cluster_id=ward.cluster.pk, node_uid=ward.node.uid, entries=[late])
    assert (stored.stored, stored.known) == (0, 1)
    assert not Finding.objects.filter(state="open").exists()
    assert not counted(Incident.objects.all()).exists()
    ward.finding("xid.119")
    assert counted(Incident.objects.all()).get() == ward.incident


def test_a_real_fault_ends_the_drill_and_is_healed_instead(ward: DrillWard) -> None:
    drill = ward.play(ward.drill("xid-119", acts=True), until="following")
    ward.finding("xid.95", device="0000:9b:00")

    drill = ward.play(drill)

    assert drill.state == "cancelled"
    assert "Xid 95" in drill.why
    assert Incident.objects.filter(drill=None).get().fault == "xid.95"


def test_a_machine_whose_agent_is_silent_is_told_and_nothing_is_played(ward: DrillWard) -> None:
    ward.has_agent = False

    drill = ward.play(ward.drill("xid-79"))

    assert drill.state == "failed"
    assert "--drill" in drill.why
    assert drill.played_at is None


def test_a_cancelled_drill_brings_the_machine_back(ward: DrillWard) -> None:
    drill = ward.play(ward.drill("xid-119", acts=True), until="following")
    while not ward.operations.cordoned:
        ward.step()
    cancel_drill(actor=SYSTEM, drill=drill)

    drill = ward.play(drill)

    assert drill.state == "cancelled"
    assert not ward.operations.cordoned
    assert not ward.operations.taints


@pytest.mark.parametrize("name", ["silent-corruption", "provider-maintenance", "thermal-slowdown", "xid-94"])
def test_every_source_of_a_scenario_reaches_the_judge_by_its_own_way(ward: DrillWard, name: str) -> None:
    drill = ward.play(ward.drill(name))

    assert drill.state == "passed", drill.why
    found = Finding.objects.get(drill=drill, fault=scenarios()[name].fault)
    assert found.outcome == drill.expected["outcome"]


@pytest.mark.parametrize("name", [one for one in scenarios() if scenarios()[one].ways[0] != "condition"])
def test_every_scenario_that_acts_comes_to_its_end_and_leaves_the_machine_as_it_was(
    ward: DrillWard, name: str
) -> None:
    drill = ward.play(ward.drill(name, acts=True))

    assert drill.state == "passed", drill.why
    assert not ward.operations.cordoned
    assert not ward.operations.taints
    assert not Finding.objects.filter(state="open").exists()
    assert not Incident.objects.exclude(state__in=ENDED_INCIDENTS).exists()


def test_faults_are_played_on_test_clusters_only_and_by_who_may_operate_them(ward: DrillWard) -> None:
    olga = actor_of(cast.person("olga", serving=Role.OPERATOR))
    vera = actor_of(cast.person("vera", serving=Role.VIEWER))
    DrillCluster.objects.all().delete()

    with pytest.raises(NotATestCluster, match="not marked as a test cluster"):
        order_drill(actor=olga, node=ward.node, name="xid-79")
    with pytest.raises(NotAllowed):
        mark_cluster(actor=vera, cluster=ward.cluster, is_test=True)
    mark_cluster(actor=olga, cluster=ward.cluster, is_test=True)
    with pytest.raises(NotAllowed):
        order_drill(actor=vera, node=ward.node, name="xid-79")
    assert order_drill(actor=olga, node=ward.node, name="xid-79").is_open


def test_a_drill_is_refused_while_a_fault_or_another_drill_has_the_machine(ward: DrillWard) -> None:
    ward.drill("xid-79")
    with pytest.raises(DrillRefused, match="still running"):
        ward.drill("xid-94")
    with pytest.raises(InvalidDrill, match="There is no scenario"):
        ward.drill("xid-0")
    with pytest.raises(InvalidDrill, match="conditions"):
        ward.drill("kernel-deadlock")
    ward.finding("xid.119")
    with pytest.raises(DrillRefused, match="incident"):
        ward.drill("xid-94")


class Conditions:
    """A machine with conditions that others may write, as Kubernetes has."""

    def __init__(self, ward: DrillWard) -> None:
        self.ward = ward
        self.held: dict[str, NodeCondition] = {"KernelDeadlock": NodeCondition("KernelDeadlock", "False")}
        self.look_before = ward.operations.look
        ward.operations.set_condition = self.set
        ward.operations.look = self.look
        ward.cluster.kind = "kubernetes"
        ward.cluster.save(update_fields=["kind"])
        ward.node.cluster = ward.cluster

    def set(self, node: str, kind: str, condition: NodeCondition | None, order: NodeCommand) -> None:
        self.held.pop(kind, None)
        if condition is not None:
            self.held[kind] = condition
        Node.objects.update(
            conditions=[asdict(one) for one in self.held.values()],
            seen_as=f"after {order.fence.turn}",
            seen_at=self.ward.clock.at,
        )

    def look(self, node: str) -> ObservedNode:
        return replace(self.look_before(node), conditions=tuple(self.held.values()))


def test_a_condition_is_played_read_off_the_node_and_given_back_as_it_was(ward: DrillWard) -> None:
    conditions = Conditions(ward)
    with pytest.raises(InvalidDrill, match="whose agent reports"):
        ward.drill("xid-94")
    ward.kernel.register(SignalReconciler())
    SignalReader.objects.get_or_create(pk=1, defaults={"next_at": ward.clock.at})

    drill = ward.play(ward.drill("kernel-deadlock"))

    assert drill.state == "passed", drill.why
    found = Finding.objects.get(drill=drill)
    assert (found.fault, found.state) == ("kernel.deadlock", "cleared")
    assert f"[slipway drill {drill.pk}]" in found.raw
    assert conditions.held == {"KernelDeadlock": NodeCondition("KernelDeadlock", "False")}
    assert ward.orders == [], "nothing is written on the machine itself"
