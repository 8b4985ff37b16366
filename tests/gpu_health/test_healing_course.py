"""Whatever comes in whatever order: no healthy machine is drained, none returns that failed its check."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_health.healing.course import fresh, next_step
from gpu_health.healing.facts import (
    ENDED,
    CordonOwner,
    FindingFacts,
    GuardRefusal,
    HealingDecision,
    IncidentFacts,
    IncidentMachine,
    IncidentStage,
    MachineWork,
    WorkProgress,
)
from gpu_health.healing.limits import HealingLimits
from gpu_health.policy.rule import DrainLevel, RemediationAction, Severity, Verification
from gpu_health.states import INCIDENT_MOVES, IncidentState

NOTHING = MachineWork()
START = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = HealingLimits(
    quiet_seconds=2, watch_seconds=20, drain_seconds=60, action_seconds=60, check_seconds=60
)
LADDERS = (
    (RemediationAction.RESET_GPU, RemediationAction.REBOOT, RemediationAction.CONTACT_SUPPORT),
    (RemediationAction.REBOOT, RemediationAction.REPLACE),
    (RemediationAction.ALERT, RemediationAction.RESET_GPU),
    (RemediationAction.RESTART_APP, RemediationAction.RESET_GPU),
    (RemediationAction.CORDON, RemediationAction.CONTACT_SUPPORT),
    (RemediationAction.POWER_CYCLE,),
)
EVENTS = (
    *("fault 0", "fault 1", "fault 2", "fault 3", "fault 4", "fault 5"),
    *("late fault 0", "late fault 1", "other boot 1", "cleared", "closed"),
    *("person cordons", "person uncordons", "restarted", "bad now", "good now", "acts fail", "acts work"),
    *("pod comes", "refused", "allowed", "given up", "stopped", "cancel leave", "cancel return", "nothing"),
    *("cancel over", "source fails", "rule off", "judged otherwise"),
)


@dataclass
class World:
    """A machine that obeys as Slipway's backends do, and an incident on it."""

    now: datetime = START
    boot: int = 1
    cordon: CordonOwner = CordonOwner.NOBODY
    taint: bool = False
    drained: bool = False
    is_good: bool = True
    """Whether a check passes now."""
    acts_work: bool = True
    refusal: GuardRefusal | None = None
    findings: dict[int, FindingFacts] = field(default_factory=dict)
    incident: IncidentFacts | None = None
    climb: int = 0
    began: set[int] = field(default_factory=set)
    checked: MachineWork = NOTHING
    collected: bool = False
    act: MachineWork = NOTHING
    deeds: list[str] = field(default_factory=list)
    persons_cordon: bool = False

    def happen(self, event: str) -> None:
        word, _, rest = event.rpartition(" ")
        if word in ("fault", "late fault", "other boot"):
            late = timedelta(seconds=30 if word == "late fault" else 0)
            boot = self.boot - 1 if word == "other boot" else self.boot
            self.see(int(rest), self.now - late, f"boot-{boot}")
        elif event in ("cleared", "closed"):
            self.findings = {pk: replace(one, is_open=False) for pk, one in self.findings.items()}
        elif event in ("source fails", "rule off"):
            waived = "The rules in force say: record." if event == "rule off" else ""
            for pk, one in self.findings.items():
                self.findings[pk] = replace(one, acts=False, waived=waived)
        elif event == "judged otherwise":
            for pk, one in self.findings.items():
                self.findings[pk] = replace(one, ladder=LADDERS[LADDERS.index(one.ladder) - 1])
        elif event == "person cordons":
            if self.cordon is CordonOwner.NOBODY:
                self.cordon, self.persons_cordon = CordonOwner.THEIRS, True
        elif event == "person uncordons":
            self.cordon, self.persons_cordon = CordonOwner.NOBODY, False
        elif event == "restarted":
            self.boot += 1
        elif event in ("bad now", "good now"):
            self.is_good = event == "good now"
        elif event in ("acts fail", "acts work"):
            self.acts_work = event == "acts work"
        elif event == "pod comes":
            self.drained = False
        elif event == "refused":
            self.refusal = GuardRefusal("window", "not now")
        elif event == "given up":
            self.refusal = GuardRefusal("approval", "nobody approved", gives_up=True)
        elif event == "stopped":
            self.refusal = GuardRefusal("kill_switch", "stop", stops_all=True)
        elif event == "allowed":
            self.refusal = None
        elif word == "cancel" and self.incident is not None and self.incident.stage not in ENDED:
            self.incident = replace(self.incident, cancel=rest)

    def see(self, number: int, at: datetime, boot: str) -> None:
        known = self.findings.get(number)
        first = known.first_at if known and known.is_open else at
        self.findings[number] = FindingFacts(
            pk=number,
            fault=f"xid.{number}",
            severity=Severity.FATAL,
            acts=True,
            by_itself=True,
            ladder=LADDERS[number],
            drain=DrainLevel.GPU,
            verification=Verification.CHECK_JOB,
            first_at=first,
            last_at=max(at, known.last_at) if known and known.is_open else at,
            boot_id=boot,
        )
        if self.incident is None:
            one = self.findings[number]
            self.incident = IncidentFacts(
                stage=IncidentStage.PROPOSED,
                stage_since=self.now,
                lead=one,
                ladder=one.ladder,
                rule_drain=one.drain,
                verification=one.verification,
                session=f"boot-{self.boot}",
            )

    @property
    def machine(self) -> IncidentMachine:
        return IncidentMachine(
            boot_id=f"boot-{self.boot}",
            cordon=self.cordon,
            has_taint=self.taint,
            drain=MachineWork(WorkProgress.SUCCEEDED) if self.drained else MachineWork(),
            evidence=MachineWork(WorkProgress.SUCCEEDED) if self.collected else MachineWork(),
            act=self.act,
            check=self.checked,
        )

    def decide(self) -> HealingDecision:
        incident = self.incident
        assert incident is not None
        lead = self.findings.get(incident.lead.pk) if incident.lead else None
        self.incident = replace(incident, lead=lead)
        refusal = self.refusal
        if (
            refusal
            and not refusal.stops_all
            and incident.stage not in (IncidentStage.PROPOSED, IncidentStage.QUARANTINED)
        ):
            refusal = None
        opened = [one for one in self.findings.values() if one.is_actionable]
        return next_step(self.incident, opened, self.machine, refusal, self.now, LIMITS)

    def step(self) -> None:
        """Act as the reconciler: the effect of the incident's stage, then what follows from it."""
        incident = self.incident
        if incident is None or incident.stage in ENDED:
            return
        if self.decide().to is None and not (self.refusal and self.refusal.stops_all):
            self.effect()
        self.follow(self.decide())

    def effect(self) -> None:
        incident = self.incident
        assert incident is not None
        if incident.stage is IncidentStage.QUARANTINING:
            self.cordon = CordonOwner.OURS if self.cordon is CordonOwner.NOBODY else self.cordon
            self.taint = True
            self.deeds.append("quarantine")
        elif incident.stage is IncidentStage.DRAINING:
            opened = list(self.findings.values())
            assert fresh(incident, opened, self.machine) or incident.check_failed, (
                "a healthy machine is drained"
            )
            assert self.cordon is not CordonOwner.NOBODY
            self.drained = True
            self.deeds.append("drain")
        elif incident.stage is IncidentStage.COLLECTING:
            self.collected = True
        elif incident.stage is IncidentStage.ACTING and self.climb not in self.began:
            self.began.add(self.climb)
            if incident.is_quarantined and self.cordon is CordonOwner.NOBODY:
                self.act = MachineWork(WorkProgress.IMPOSSIBLE, "called off")
                return
            self.act = MachineWork(WorkProgress.SUCCEEDED if self.acts_work else WorkProgress.FAILED)
            self.deeds.append(f"act {incident.action}")
        elif incident.stage is IncidentStage.VERIFYING and not self.checked.has_ended:
            self.checked = MachineWork(WorkProgress.SUCCEEDED if self.is_good else WorkProgress.FAILED)
        elif incident.stage is IncidentStage.RETURNING:
            self.taint = False
            self.cordon = CordonOwner.NOBODY if self.cordon is CordonOwner.OURS else self.cordon
            self.deeds.append("return")

    def follow(self, decision: HealingDecision) -> None:
        incident = self.incident
        assert incident is not None
        climbs = decision.lead is not None or decision.rung is not None
        changed = dict(decision.changes)
        if decision.lead is not None:
            lead = decision.lead
            changed |= {"lead": lead, "ladder": lead.ladder, "rung": 0, "verification": lead.verification}
        elif decision.rung is not None:
            changed["rung"] = decision.rung
        if climbs:
            self.climb += 1
            self.collected, self.drained, self.act = False, False, MachineWork()
        to = decision.to
        if to is not None:
            assert to is not incident.stage
            assert INCIDENT_MOVES.allows(IncidentState(incident.stage), IncidentState(to)), (
                incident.stage,
                to,
            )
            if to is IncidentStage.RETURNING and not incident.cancel and "cancel" not in changed:
                assert self.checked.progress is WorkProgress.SUCCEEDED, (
                    "it returns without a check that passed"
                )
            if to is IncidentStage.VERIFYING:
                self.checked = MachineWork()
            changed |= {"stage": to, "stage_since": self.now}
            if to is IncidentStage.QUARANTINING:
                changed["is_quarantined"] = True
            if to is IncidentStage.WATCHING:
                assert not self.taint
                assert self.cordon is not CordonOwner.OURS
                changed["is_quarantined"] = False
            self.deeds.append(str(to))
        self.incident = replace(incident, **changed)  # type: ignore[arg-type]
        if self.persons_cordon:
            assert self.cordon is CordonOwner.THEIRS, "a person's cordon was taken away"


FIRST = st.integers(0, len(LADDERS) - 1)
ORDERS = st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 4)), max_size=40)


@settings(max_examples=200, deadline=None)
@given(first=FIRST, events=ORDERS)
def test_any_order_of_events_keeps_the_promises_and_comes_to_an_end(
    first: int, events: list[tuple[str, int]]
) -> None:
    keeps_the_promises(first, events)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=5_000, deadline=None)
@given(first=FIRST, events=ORDERS)
def test_so_do_many_more_orders(first: int, events: list[tuple[str, int]]) -> None:
    keeps_the_promises(first, events)


def keeps_the_promises(first: int, events: list[tuple[str, int]]) -> None:
    world = World()
    world.happen(f"fault {first}")
    for event, steps in events:
        world.happen(event)
        for _ in range(steps):
            world.step()
            world.now += timedelta(seconds=1)
    world.refusal = None
    for _ in range(400):
        world.step()
        world.now += timedelta(seconds=1)
    assert world.incident is not None
    assert world.incident.stage in (*ENDED, IncidentStage.NEEDS_PERSON), world.deeds


def run(world: World, *events: str, steps: int = 60) -> World:
    for event in events:
        world.happen(event)
        for _ in range(steps):
            world.step()
            world.now += timedelta(seconds=1)
    return world


def test_a_worse_fault_supersedes_and_voids_what_was_about_to_be_done() -> None:
    world = World()
    world.refusal = GuardRefusal("window", "not now")
    run(world, "fault 0", steps=3)

    run(world, "fault 1", "allowed")

    assert "act reboot" in world.deeds
    assert "act reset_gpu" not in world.deeds


def test_a_fault_of_another_boot_touches_nothing() -> None:
    world = run(World(), "other boot 0")

    assert world.deeds == ["cancelled"]


def test_a_fault_that_is_taken_back_in_quarantine_leads_to_a_check_not_to_an_action() -> None:
    world = World()
    run(world, "fault 0", steps=1)
    world.step()
    run(world, "cleared")

    assert "verifying" in world.deeds
    assert not any(deed.startswith("act") for deed in world.deeds)


def test_a_late_report_of_the_old_fault_does_not_count_against_the_repaired_machine() -> None:
    world = World()
    world.happen("fault 0")
    while world.incident is not None and world.incident.stage is not IncidentStage.VERIFYING:
        world.step()
        world.now += timedelta(seconds=1)
    assert world.incident is not None
    acted = world.incident.acted_at
    assert acted is not None

    world.see(0, acted - timedelta(seconds=1), "boot-1")
    run(world, "nothing")

    assert world.incident is not None
    assert world.incident.stage is IncidentStage.CLOSED


def test_a_fresh_fault_after_the_action_is_no_recovery() -> None:
    world = World()
    world.happen("fault 0")
    while world.incident is not None and world.incident.stage is not IncidentStage.WATCHING:
        world.step()
        world.now += timedelta(seconds=1)

    run(world, "fault 0")

    assert "act reboot" in world.deeds


def test_a_machine_that_a_person_takes_back_is_let_go_of() -> None:
    world = World()
    run(world, "fault 0", steps=2)
    world.is_good = False
    run(world, "person uncordons")

    assert world.incident is not None
    assert world.incident.stage is IncidentStage.CANCELLED
    assert not world.taint
