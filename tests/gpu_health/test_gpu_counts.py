"""A machine that shows fewer GPUs than it must have has a fault, whoever counts them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.states import Role
from clusters.models import Cluster, Gpu, Node
from clusters.states import GpuState, NodeState
from common.actor import Actor
from common.errors import Invalid, NotAllowed
from common.models import AuditRecord
from gpu_health.models import Finding, GpuCount
from gpu_health.services.gpu_counts import expect_gpus, note_cluster
from gpu_health.services.missing_gpus import NONE_SETTLES, SETTLES, report_missing
from gpu_health.services.readings import accept_readings
from tests import cast

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
SYSTEM = Actor.system("test")


class Machine:
    """A machine with eight GPUs, and a clock that tests move."""

    def __init__(self, gpus: int = 8) -> None:
        self.now = timezone.now()
        cluster = Cluster.objects.create(name="eks", kind="kubernetes", team=cast.team("serving"))
        self.node = Node.objects.create(
            cluster=cluster, uid="n-1", name="gpu-1", seen_at=self.now, state=NodeState.READY
        )
        for index in range(gpus):
            Gpu.objects.create(cluster=cluster, node=self.node, uuid=f"n-1/{index}", index=index)
        self.shows(gpus)

    def shows(self, count: int, **columns: Any) -> None:
        """Let the cluster show so many GPUs."""
        Gpu.objects.filter(node=self.node).update(state=GpuState.PRESENT)
        Gpu.objects.filter(node=self.node, index__gte=count).update(state=GpuState.GONE)
        Node.objects.filter(pk=self.node.pk).update(**columns)
        self.node.refresh_from_db()
        note_cluster(self.node, self.now)

    def agent_counts(self, count: int, **details: str) -> None:
        entry = {
            "source": "nvml",
            "fault": "gpu.count",
            "kind": "fact",
            "value": float(count),
            "details": details,
            "origin": f"s/gpu.count/{self.now.timestamp()}",
        }
        accept_readings(cluster_id=self.node.cluster_id, node_uid=self.node.uid, entries=[entry])
        # The door takes the real clock.
        GpuCount.objects.filter(short_since__gt=self.now).update(short_since=self.now)

    def after(self, span: timedelta) -> Finding | None:
        """The finding that is open once so much time has passed."""
        self.now += span
        report_missing(self.now)
        return Finding.objects.filter(fault="gpu.count_mismatch", state="open").first()


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_gpu_that_the_cluster_shows_no_more_is_a_fault_until_it_is_back(machine: Machine) -> None:
    machine.shows(7)

    finding = machine.after(SETTLES)

    assert finding is not None
    assert (finding.severity, finding.raw) == ("fatal", "7 of 8 GPUs")
    machine.shows(8)
    assert machine.after(timedelta(0)) is None


def test_a_gpu_that_the_agent_misses_is_a_fault_on_a_machine_without_a_drill(machine: Machine) -> None:
    machine.agent_counts(8)
    machine.now += timedelta(seconds=1)
    machine.agent_counts(7)

    finding = machine.after(SETTLES)

    assert finding is not None
    assert finding.raw == "7 of 8 GPUs"


def test_one_short_look_is_no_fault(machine: Machine) -> None:
    machine.shows(7)
    assert machine.after(SETTLES / 2) is None
    machine.shows(8)
    assert machine.after(SETTLES) is None
    machine.shows(0)
    assert machine.after(SETTLES) is None, "a device plugin that is upgraded shows none for minutes"
    assert machine.after(NONE_SETTLES) is not None


def test_a_machine_that_never_had_gpus_has_no_count_and_no_fault() -> None:
    machine = Machine(gpus=0)
    machine.agent_counts(0)

    assert machine.after(NONE_SETTLES) is None
    assert not GpuCount.objects.exists()


def slices() -> Iterator[Any]:
    yield pytest.param({"allocatable": {"nvidia.com/gpu": 7, "nvidia.com/mig-1g.10gb": 7}}, id="mixed MIG")
    yield pytest.param({}, id="single MIG")


@pytest.mark.parametrize("columns", slices())
def test_gpus_that_mig_splits_are_not_missing(machine: Machine, columns: dict[str, Any]) -> None:
    if not columns:
        Gpu.objects.update(sharing="mig")
    machine.shows(7, **columns)

    assert machine.after(NONE_SETTLES) is None


def test_shares_that_are_not_labelled_yet_are_not_learned_as_gpus(machine: Machine) -> None:
    labels = {"nvidia.com/gpu.count": "8"}
    for index in range(8, 32):
        Gpu.objects.create(cluster=machine.node.cluster, node=machine.node, uuid=f"n-1/{index}", index=index)
    machine.shows(32, labels=labels)
    machine.shows(8, labels=labels)

    assert machine.after(NONE_SETTLES) is None
    assert GpuCount.objects.get().expected == 8


def test_an_agent_that_sees_some_of_the_gpus_is_held_against_itself(machine: Machine) -> None:
    machine.agent_counts(2)

    assert machine.after(NONE_SETTLES) is None


def test_what_a_drill_plays_is_not_counted(machine: Machine) -> None:
    machine.agent_counts(16, drill="7")

    assert GpuCount.objects.get().expected == 8


def test_a_label_of_the_machines_kind_says_it_before_anything_was_counted() -> None:
    machine = Machine(gpus=7)
    machine.shows(7, labels={"karpenter.k8s.aws/instance-gpu-count": "8"})

    finding = machine.after(SETTLES)

    assert finding is not None
    assert finding.raw == "7 of 8 GPUs"


def test_a_person_says_with_a_reason_that_a_gpu_was_taken_out(machine: Machine) -> None:
    machine.shows(7)
    assert machine.after(SETTLES) is not None

    with pytest.raises(Invalid):
        expect_gpus(actor=SYSTEM, node=machine.node, count=7, reason=" ")
    expect_gpus(actor=SYSTEM, node=machine.node, count=7, reason="GPU 3 is at the vendor")

    assert machine.after(timedelta(0)) is None
    record = AuditRecord.objects.get(action="gpu_count.expect")
    assert record.reason == "GPU 3 is at the vendor"
    assert (record.detail["before"], record.detail["expected"]) == (8, 7)
    machine.shows(6)
    assert machine.after(SETTLES) is not None
    expect_gpus(actor=SYSTEM, node=machine.node, count=None, reason="It is back")
    assert GpuCount.objects.get().expected == 8


def test_the_page_of_the_machine_shows_what_is_expected_and_who_may_change_it(machine: Machine) -> None:
    machine.shows(7)
    operator, viewer = cast.person("olga", serving=Role.OPERATOR), cast.person("vera", serving=Role.VIEWER)
    url = f"/fleet/nodes/{machine.node.pk}/"

    shown = cast.client_of(operator).get(url).content.decode()
    assert "GPU missing" in shown
    assert "the most that were ever counted" in shown
    assert "Change expected" not in cast.client_of(viewer).get(url).content.decode()

    sent = cast.client_of(operator).post(
        f"/gpu-health/machines/{machine.node.pk}/+expect/", {"count": "7", "reason": "at the vendor"}
    )
    assert sent.status_code in (200, 204, 302, 303)
    assert GpuCount.objects.get().fixed == 7
    assert "at the vendor" in cast.client_of(operator).get(url).content.decode()


def test_who_may_not_operate_the_machine_does_not_say_how_many_gpus_it_has(machine: Machine) -> None:
    viewer = cast.person("vera", serving=Role.VIEWER)
    actor = Actor(viewer.username, user_id=viewer.pk, via="web")

    with pytest.raises(NotAllowed):
        expect_gpus(actor=actor, node=machine.node, count=7, reason="no")
