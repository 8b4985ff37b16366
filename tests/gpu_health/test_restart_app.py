"""A worker of ours on the faulty GPU is restarted where it is known which one that is."""

import pytest
from django.utils import timezone

from clusters.backends.fake import NODE
from clusters.backends.observed_pods import ObservedPod
from clusters.models import Cluster
from gpu_health.judge import judge
from gpu_health.policy.presets import preset
from gpu_health.policy.rule import Citation, FaultRule, Mode, RemediationAction, Severity
from gpu_health.signals.reading import GpuReading, ReadingSource
from tests.gpu_health.healing import Ward

pytestmark = pytest.mark.django_db
OURS = ObservedPod(
    uid="u1", name="chat-r1-0", namespace="ml", node=NODE.name, owner="ReplicaSet chat-r1",
    deployment="chat-r1", gpus={"nvidia.com/gpu": 8},
)  # fmt: skip
THEIRS = ObservedPod(uid="u2", name="train-0", namespace="team-a", owner="Job train", gpus={"gpu": 1})


@pytest.fixture
def ward() -> Ward:
    ward = Ward()
    Cluster.objects.update(kind="kubernetes")
    return ward


def falls_ill(ward: Ward, *pods: ObservedPod) -> None:
    ward.operations.others = list(pods)
    ward.finding(
        fault="xid.94",
        ladder=["restart_app", "reset_gpu"],
        drain="none",
        verification="none",
        first_at=timezone.now(),
    )


def test_the_only_pod_on_the_machine_is_asked_to_end_and_the_machine_stays_in_service(ward: Ward) -> None:
    falls_ill(ward, OURS)
    ward.run("closed")
    assert ward.operations.evictions == [("chat-r1-0", None)]
    assert ward.operations.cordoned == {}
    assert ward.programs.repaired == []


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ((OURS, THEIRS), "2 pods with GPUs on the machine: nobody can say which one to restart."),
        ((THEIRS,), "team-a/train-0 is not Slipway's: its owner restarts it."),
        ((), "No pod with GPUs on the machine"),
    ],
)
def test_whose_pod_it_is_must_be_known_else_the_next_rung_is_climbed(
    ward: Ward, pods: tuple[ObservedPod, ...], why: str
) -> None:
    falls_ill(ward, *pods)
    ward.run(lambda: ward.incident.rung == 1)
    assert any(why in entry.words for entry in ward.incident.timeline.all())
    assert ward.operations.evictions == []


def test_a_ladder_of_a_restart_alone_ends_with_a_person_and_is_not_climbed_again(ward: Ward) -> None:
    ward.operations.others = [THEIRS]
    ward.finding(fault="xid.94", ladder=["restart_app"], drain="none", verification="none")
    ward.run("needs_person")
    assert ward.incident.acts == 1
    assert ward.operations.cordoned == {}


def test_a_rule_that_restarts_an_application_may_act() -> None:
    reading = GpuReading(source=ReadingSource.KERNEL_LOG, fault="xid.94", origin="b/1")
    rule = FaultRule(
        name="own-xid.94",
        fault="xid.94",
        severity=Severity.WARNING,
        ladder=(RemediationAction.RESTART_APP, RemediationAction.CONTACT_SUPPORT),
        citation=Citation(source="olga", says="as the catalog says"),
        mode=Mode.ACT,
        is_own=True,
    )
    (verdict,) = judge([reading], [rule, *preset("default")])
    assert verdict.outcome == "act"
