"""Rules change: what is open is judged by them, and what has not begun to act follows."""

from typing import Any

import pytest
from django.utils import timezone

from accounts.models import User
from common.actor import Actor
from common.models import AuditRecord
from gpu_health.models import Finding, HealingPolicy, JudgingAnew
from gpu_health.reconcilers.judging import JudgingReconciler
from gpu_health.services.judging import outdated
from gpu_health.services.presets import choose_preset
from gpu_health.services.readings import store_readings
from gpu_health.services.rules import change_rule
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingSource
from tests import cast
from tests.gpu_health.healing import DONE, LIMITS, Ward

pytestmark = pytest.mark.django_db


class Judged(Ward):
    """A ward with a fault that a reading found, and the reconciler that judges it anew."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.kernel.register(JudgingReconciler())

    def see(self, fault: str = "xid.119", origin: str = "1") -> None:
        seen = GpuReading(
            source=ReadingSource.KERNEL_LOG,
            fault=fault,
            at=self.clock.at.timestamp(),
            clock=ReadingClock.EPOCH,
            gpu_bus_id="0000:9b:00",
            origin=f"{self.node.boot_id}/{origin}",
            raw="NVRM: Xid (PCI:0000:9b:00): 119",
        )
        store_readings(self.node, [seen])
        self._due()

    def change(self, admin: User, **given: Any) -> None:
        rule = Finding.objects.latest("pk").rule
        change_rule(
            actor=Actor(admin.username, user_id=admin.pk, via="web"), name=rule, given=given, reason="x"
        )
        self.judge()

    def judge(self) -> None:
        JudgingAnew.objects.update(next_at=self.clock.at)
        self.kernel.sweep()
        self._due()

    @property
    def found(self) -> Finding:
        return Finding.objects.latest("pk")


@pytest.fixture
def ward() -> Judged:
    JudgingAnew.objects.get_or_create(defaults={"next_at": timezone.now()})
    return Judged()


@pytest.fixture
def admin() -> User:
    return cast.person("ada", superuser=True)


def test_a_rule_that_is_switched_off_ends_what_has_not_begun(ward: Judged, admin: User) -> None:
    ward.see()
    ward.change(admin, mode="propose")
    ward.run(lambda: ward.incident.hold == "proposal")

    ward.change(admin, mode="off")
    ward.run("cancelled")

    assert ward.found.state == "cleared"
    assert "the rule is off. Nothing was done." in ward.incident.reason
    assert not ward.operations.cordoned
    told = " ".join(ward.incident.timeline.values_list("words", flat=True))
    assert "The rules have changed." in told
    assert AuditRecord.objects.filter(action="gpu_finding.judge_anew").exists()


def test_a_rule_that_acts_from_now_on_goes_through_its_guards(ward: Judged, admin: User) -> None:
    ward.see()
    ward.change(admin, mode="propose")
    ward.run(lambda: ward.incident.hold == "proposal")

    ward.change(admin, mode="act", ladder=["reset_gpu", "reboot"])

    assert ward.found.outcome == "act"
    ward.run(lambda: ward.incident.ladder == ["reset_gpu", "reboot"])
    assert not ward.operations.cordoned or ward.incident.state != "proposed"
    ward.run("watching")
    assert len(ward.programs.repaired) == 1


def test_what_acts_already_goes_on_by_the_ladder_that_it_began(ward: Judged, admin: User) -> None:
    ward.see()
    jobs = ward.operations.job_runner
    jobs.program = None
    ward.change(admin, mode="act", ladder=["reset_gpu", "contact_support"])
    ward.run("collecting")
    jobs.finish(jobs.live[0], DONE)
    ward.run(lambda: ward.incident.state == "acting" and jobs.live)

    ward.change(admin, mode="off")
    assert ward.incident.state == "acting", "a reset is not left half done"
    jobs.program = ward.programs
    jobs.finish(jobs.live[0], DONE)
    ward.run("watching")

    assert len(jobs.started) == 3, "evidence, the reset, a check"
    assert ward.incident.ladder == ["reset_gpu", "contact_support"]
    assert not ward.operations.cordoned


def test_a_machine_that_is_out_of_service_for_nothing_is_verified_and_returns(
    ward: Judged, admin: User
) -> None:
    HealingPolicy.objects.update(limits=LIMITS | {"approved_actions": ["reset_gpu"]})
    ward.see()
    ward.change(admin, mode="act", ladder=["reset_gpu"])
    ward.run(lambda: ward.incident.hold == "approval")
    assert ward.incident.state == "quarantined"

    ward.change(admin, mode="record")
    ward.run("watching")

    assert ward.programs.repaired == []
    assert "check" in ward.programs.ran
    said = ward.incident.timeline.get(state="verifying").words
    assert said.startswith("The rules in force say of xid.119: record.")


def test_a_rule_that_acts_opens_nothing_of_what_it_ignored_before(ward: Judged, admin: User) -> None:
    ward.see()
    ward.change(admin, mode="off")
    assert ward.found.state == "cleared"

    ward.change(admin, mode="act")
    assert not Finding.objects.filter(state="open").exists()

    ward.see(origin="2")
    assert Finding.objects.get(state="open").outcome == "act"


def test_another_preset_judges_what_is_open_and_nothing_twice(
    ward: Judged, admin: User, django_assert_max_num_queries: Any
) -> None:
    ward.see("xid.63")
    before = ward.found

    actor = Actor(admin.username, user_id=admin.pk, via="web")
    choose_preset(actor=actor, preset="gpud", cluster=None, reason="try")
    ward.judge()

    after = ward.found
    assert (after.pk, after.state) == (before.pk, "open")
    assert after.rule != before.rule
    assert after.rule_book != before.rule_book
    with django_assert_max_num_queries(5):
        assert list(outdated()) == []
    assert AuditRecord.objects.filter(action="gpu_finding.judge_anew").count() == 1
