"""Each guard refuses where it should, says why, and lets pass where it should."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from gpu_health.healing.facts import IncidentStage
from gpu_health.healing.guards import (
    ActionWindow,
    DomainFacts,
    Gate,
    GuardFacts,
    PoolFacts,
    refusal,
    windows_of,
)
from gpu_health.healing.limits import BadLimits, HealingLimits
from gpu_health.models import Incident
from gpu_health.policy.rule import RemediationAction
from gpu_health.reconcilers.gates import gates_before

NOW = datetime(2030, 1, 7, 12, 0, tzinfo=UTC)  # a Monday
FREE = GuardFacts(
    now=NOW,
    action=RemediationAction.RESET_GPU,
    fault="xid.119",
    severity="fatal",
    by_itself=True,
    is_on=True,
    pool=PoolFacts(name="gpus/default", machines=40),
)


def guard_of(gate: Gate = Gate.REPAIR, *, limits: HealingLimits | None = None, **facts: Any) -> str:
    found = refusal(replace(FREE, **facts), limits or HealingLimits(), {gate})
    assert found is None or found.words
    return found.guard if found else ""


def pool(**facts: Any) -> PoolFacts:
    return replace(FREE.pool, **facts)


def test_nothing_stands_in_the_way_of_a_plain_fault() -> None:
    assert guard_of(Gate.QUARANTINE) == guard_of(Gate.REPAIR) == ""


@pytest.mark.parametrize(
    ("guard", "facts"),
    [
        ("kill_switch", {"kill_switch": "olga: storm"}),
        ("person", {"held_by_person": "olga: wait"}),
        ("dry_run", {"is_on": False}),
        ("dry_run", {"dry_cluster": True}),
        ("one_at_a_time", {"other_remediation": "olga drains it"}),
        ("proposal", {"by_itself": False}),
        ("domain", {"domain": DomainFacts(name="rack-1", machines=9, bad=5)}),
        ("breaker", {"pool": pool(breaker="20 of 40 machines")}),
        ("unhealthy", {"pool": pool(out_of_service=8)}),
    ],
)
def test_both_gates_are_shut(guard: str, facts: dict[str, Any]) -> None:
    assert guard_of(Gate.QUARANTINE, **facts) == guard_of(Gate.REPAIR, **facts) == guard


@pytest.mark.parametrize(
    ("guard", "facts"),
    [
        ("lemon", {"remediations": 5}),
        ("approval", {"action": RemediationAction.REBOOT}),
        ("wait", {"severity": "warning", "fault_age": timedelta(minutes=9)}),
        ("cooldown", {"since_last": timedelta(minutes=4)}),
        ("window", {"windows": windows_of([{"start": "22:00", "end": "05:00"}])}),
        ("rate", {"pool": pool(repairs_lately=4)}),
        ("spacing", {"pool": pool(since_drain=timedelta(minutes=9))}),
        ("slots", {"pool": pool(slots_taken=4)}),
    ],
)
def test_a_repair_waits_while_the_quarantine_does_not(guard: str, facts: dict[str, Any]) -> None:
    assert guard_of(Gate.REPAIR, **facts) == guard
    assert guard_of(Gate.QUARANTINE, **facts) == ""


@pytest.mark.parametrize(
    "facts",
    [
        {"severity": "warning", "fault_age": timedelta(minutes=10)},
        {"since_last": timedelta(minutes=5)},
        {"windows": windows_of([{"start": "11:00", "end": "13:00", "days": [0]}])},
        {"pool": pool(out_of_service=7)},
        {"pool": pool(repairs_lately=3)},
        {"pool": pool(since_drain=timedelta(minutes=10))},
        {"pool": pool(slots_taken=3)},
        {"pool": pool(machines=5, out_of_service=4)},
        {"domain": DomainFacts(name="rack-1", machines=9, bad=4)},
        {"remediations": 4},
    ],
)
def test_up_to_its_figure_a_guard_lets_pass(facts: dict[str, Any]) -> None:
    assert guard_of(Gate.REPAIR, **facts) == ""


@pytest.mark.parametrize(
    "facts",
    [
        {"by_itself": False},
        {"action": RemediationAction.REPLACE},
        {"remediations": 9},
        {"domain": DomainFacts(name="rack-1", machines=9, bad=9)},
        {"pool": pool(out_of_service=30)},
    ],
)
def test_what_a_person_has_approved_passes(facts: dict[str, Any]) -> None:
    assert guard_of(Gate.REPAIR, is_approved=True, **facts) == ""


def test_what_cordons_nobody_asks_for_no_room() -> None:
    assert gates_before(IncidentStage.ACTING, Incident(state="proposed")) == {Gate.REPAIR}
    assert gates_before(IncidentStage.NEEDS_PERSON, Incident(state="proposed")) == {Gate.HAND_OVER}
    full = pool(out_of_service=30, cordoned_lately=30, breaker="20 of 40 machines")
    assert guard_of(Gate.HAND_OVER, pool=full) == ""


@pytest.mark.parametrize("gate", Gate)
def test_the_pool_holds_no_drill(gate: Gate) -> None:
    full = pool(
        out_of_service=39, cordoned_lately=39, repairs_lately=9, slots_taken=9, breaker="20 of 40 machines",
        since_drain=timedelta(0),
    )  # fmt: skip
    assert guard_of(gate, pool=full, is_drill=True) == ""
    assert guard_of(gate, pool=full, is_drill=True, kill_switch="olga: storm") == "kill_switch"


def test_an_approval_that_nobody_gives_in_time_is_given_up() -> None:
    facts = replace(FREE, action=RemediationAction.REBOOT, since_asked=timedelta(hours=24))
    found = refusal(facts, HealingLimits(), {Gate.REPAIR})

    assert found is not None
    assert found.gives_up
    assert "nobody approved within 24 h" in found.words or "within 1 d" in found.words


def test_the_breaker_opens_at_half_of_the_pool_and_never_for_a_single_machine() -> None:
    assert guard_of(Gate.QUARANTINE, pool=pool(cordoned_lately=18)) == ""
    assert guard_of(Gate.QUARANTINE, pool=pool(cordoned_lately=19)) == "breaker"
    assert guard_of(Gate.QUARANTINE, pool=pool(machines=1)) == ""


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_begins() -> None:
    window = ActionWindow(start=time(22), end=time(5), days=frozenset({0}))

    assert window.holds(NOW.replace(hour=23))
    assert window.holds(NOW.replace(day=8, hour=4))
    assert not window.holds(NOW.replace(hour=4))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"slots": 1}, "There is no limit slots"),
        ({"slots_percent": 101}, "from 0 to 100"),
        ({"breaker_seconds": "long"}, "must be a number"),
        ({"lemon_remediations": 1.5}, "whole number"),
        ({"approved_actions": ["explode"]}, "no action explode"),
        ({"wait_seconds": {"awful": 1}}, "has no awful"),
    ],
)
def test_a_limit_that_cannot_be_meant_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadLimits, match=words):
        HealingLimits.of(given)
