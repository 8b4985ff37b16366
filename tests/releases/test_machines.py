"""A machine that leaves service under a release: nobody is judged by what a faulty machine does."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from accounts.models import User
from clusters.backends.base import ObservedState
from clusters.backends.fake import NODE
from clusters.models import Node, Worker
from common import events
from gpu_health.events import NodeQuarantined
from gpu_health.models import Incident
from gpu_health.states import IncidentState
from releases.services.release import rollback
from releases.states import ReleaseState
from tests import cast
from tests.releases.world import Scene

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

S = ReleaseState


class Machine:
    """Bears the workers of the scene, and falls ill."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.node = Node.objects.create(
            cluster=scene.cluster, uid=NODE.uid, name=NODE.name, seen_at=scene.clock.at
        )
        Worker.objects.update(node=self.node)

    def falls_ill(self, **columns: Any) -> Incident:
        self.incident = Incident.objects.create(
            node=self.node,
            pool="local/default",
            fault="xid.79",
            severity="fatal",
            ladder=["reboot"],
            drain="node",
            verification="none",
            first_at=self.scene.clock.at,
            **{"state": IncidentState.QUARANTINED, "is_quarantined": True, **columns},
        )
        return self.incident

    def is_quarantined(self) -> None:
        self.falls_ill()
        with transaction.atomic():
            events.publish(NodeQuarantined(self.node.pk, self.incident.pk))

    def is_healed(self) -> None:
        Incident.objects.filter(pk=self.incident.pk).update(
            state=IncidentState.CLOSED, is_quarantined=False, ended_at=timezone.now()
        )


@pytest.fixture
def machine(scene: Scene) -> Machine:
    scene.start()
    scene.run_until(lambda: scene.release.steps.get(kind="hold").state == "running")
    return Machine(scene)


def test_a_canary_whose_machine_is_quarantined_waits_and_is_not_rolled_back(
    scene: Scene, machine: Machine
) -> None:
    machine.is_quarantined()
    scene.misbehave(error_share=1.0)
    scene.break_candidate("CUDA error: device lost")
    scene.run_for(40)

    assert scene.state() == S.RUNNING
    assert scene.release.disturbance["machine"] == NODE.name
    notes = list(scene.release.moves.values_list("note", flat=True))
    assert f"Held: {NODE.name} leaves service (Xid 79: GPU has fallen off the bus)" in notes[-1]


def test_users_are_spared_a_candidate_that_lost_all_its_workers(scene: Scene, machine: Machine) -> None:
    machine.is_quarantined()
    scene.break_candidate()
    scene.run_for(3)
    assert scene.split() == {scene.stable: 500}


def test_it_goes_on_with_its_share_once_the_machine_is_back(scene: Scene, machine: Machine) -> None:
    machine.is_quarantined()
    scene.break_candidate()
    scene.run_for(30)
    machine.is_healed()
    for seen in scene.world.observe(scene.candidate):
        scene.world.turn(seen.name, ObservedState.READY)
    scene.run_until(lambda: scene.state() == S.RUNNING and scene.release.disturbed_at is None, seconds=60)
    assert 100 < scene.split(1000)[scene.candidate] < 500
    scene.run_until_state(S.WAITING_APPROVAL)
    assert scene.release.steps.get(kind="hold").state == "done"


def test_a_fault_a_moment_before_the_quarantine_is_not_held_against_the_candidate(
    scene: Scene, machine: Machine
) -> None:
    machine.falls_ill(state=IncidentState.PROPOSED, is_quarantined=False, opened_at=scene.clock.at)
    scene.break_candidate("CUDA error: device lost")
    scene.run_until(lambda: scene.state() == S.ROLLING_BACK or bool(scene.release.disturbance), seconds=60)
    assert scene.release.halt == ""
    assert scene.release.disturbance["why"] == "Xid 79: GPU has fallen off the bus"


def test_a_proposed_incident_that_nobody_acts_on_protects_for_a_moment_only(
    scene: Scene, machine: Machine
) -> None:
    machine.falls_ill(
        state=IncidentState.PROPOSED,
        is_quarantined=False,
        opened_at=scene.clock.at - timedelta(minutes=3),
    )
    scene.break_candidate()
    scene.run_until_state(S.ROLLED_BACK)


def test_workers_that_find_no_place_in_time_are_judged_as_usual(scene: Scene, machine: Machine) -> None:
    machine.is_quarantined()
    scene.break_candidate()
    scene.run_for(3)
    machine.is_healed()
    scene.clock.pass_(timedelta(minutes=11))
    scene.run_until_state(S.ROLLED_BACK)
    notes = list(scene.release.moves.values_list("note", flat=True))
    assert any("were not ready in time" in note for note in notes)


def test_a_person_may_roll_back_a_release_that_waits_for_a_machine(scene: Scene, machine: Machine) -> None:
    machine.is_quarantined()
    scene.run_for(2)
    rollback(scene.release, actor=scene.approver, reason="no patience")
    scene.run_until_state(S.ROLLED_BACK)


def test_the_pages_of_the_release_and_of_its_service_name_the_machine(scene: Scene, machine: Machine) -> None:
    machine.is_quarantined()
    client = cast.client_of(User.objects.get(username="ada"))
    told = client.get(f"/releases/{scene.release.pk}/").content.decode()
    assert f"Held: {NODE.name} leaves service" in told
    assert f"/gpu-health/incidents/{machine.incident.pk}/" in told
    assert f"{NODE.name} leaves service" in client.get(f"/services/{scene.name}/").content.decode()
