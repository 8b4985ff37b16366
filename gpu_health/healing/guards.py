"""What keeps healing from making things worse: one table of guards, each a pure question.

The first that refuses is shown on the incident, with its words. Guards are asked before a machine is
quarantined, before it is drained and acted on, and before it is handed to a person with nothing done. Their
figures are in `limits`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from gpu_health.healing.facts import GuardRefusal
from gpu_health.healing.limits import HealingLimits
from gpu_health.policy.rule import RemediationAction


class Gate(StrEnum):
    QUARANTINE = "quarantine"
    REPAIR = "repair"
    HAND_OVER = "hand_over"
    """To a person: nothing is done to the machine."""


EVERY = frozenset(Gate)
QUARANTINE = frozenset({Gate.QUARANTINE})
REPAIR = frozenset({Gate.REPAIR})


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionWindow:
    """When actions may be taken: from `start` to `end` (the next day, if that is earlier), local time."""

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))
    """0 is Monday: of its beginning."""
    time_zone: str = "UTC"

    def holds(self, now: datetime) -> bool:
        local = now.astimezone(ZoneInfo(self.time_zone))
        at, day = local.time(), local.weekday()
        if self.start <= self.end:
            return day in self.days and self.start <= at < self.end
        return (day in self.days and at >= self.start) or ((day - 1) % 7 in self.days and at < self.end)

    @property
    def words(self) -> str:
        return f"{self.start:%H:%M} to {self.end:%H:%M} {self.time_zone}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Machines that stand for each other: numbers of them, without the one in question where that matters."""

    name: str = "default"
    machines: int = 1
    out_of_service: int = 0
    """Of the others: cordoned, not ready, quarantined or about to be."""
    cordoned_lately: int = 0
    """Of the others, by healing, within the breaker's time; with those that would be, had the pool room."""
    repairs_lately: int = 0
    """Actions on others within an hour."""
    slots_taken: int = 0
    """By others."""
    since_drain: timedelta | None = None
    """Since the last drain of another one began."""
    breaker: str = ""
    """Why it is open; empty: it is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainFacts:
    """Machines of one rack or NVLink domain; `name` empty: not known."""

    name: str = ""
    machines: int = 0
    bad: int = 0
    """With this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFacts:
    now: datetime
    action: RemediationAction
    fault: str
    severity: str
    by_itself: bool
    """The rule acts; else it proposes, and a person approves."""
    is_approved: bool = False
    """A person has approved this action for this incident."""
    since_asked: timedelta = timedelta(0)
    """Since the approval was asked for."""
    is_on: bool = False
    is_drill: bool = False
    """What it is about is played."""
    kill_switch: str = ""
    """Why healing is stopped, and by whom; empty: it is not."""
    held_by_person: str = ""
    dry_cluster: bool = False
    fault_age: timedelta = timedelta(0)
    remediations: int = 0
    """Incidents of this machine that acted on it, within the lemon's time."""
    since_last: timedelta | None = None
    """Since the last incident of this machine ended."""
    other_remediation: str = ""
    """What else is being done to the machine."""
    windows: Sequence[ActionWindow] = ()
    """None: at any time."""
    pool: PoolFacts = PoolFacts()
    domain: DomainFacts = DomainFacts()


Check = Callable[[GuardFacts, HealingLimits], str]


@dataclass(frozen=True, slots=True)
class Guard:
    name: str
    gates: frozenset[Gate]
    check: Check
    """Why it refuses; empty: it does not."""
    of_pool: bool = False
    """It counts what happens to the machines of a pool: a drill stands outside of that."""
    stops_all: bool = False
    gives_up: Callable[[GuardFacts, HealingLimits], bool] = lambda _facts, _limits: False


def refusal(facts: GuardFacts, limits: HealingLimits, gates: Iterable[Gate]) -> GuardRefusal | None:
    """Return the refusal of the first guard of these gates that refuses."""
    asked = frozenset(gates)
    for guard in GUARDS:
        if guard.of_pool and facts.is_drill:
            continue
        if guard.gates & asked and (words := guard.check(facts, limits)):
            return GuardRefusal(guard.name, words, guard.stops_all, guard.gives_up(facts, limits))
    return None


def needs_approval(facts: GuardFacts, limits: HealingLimits) -> bool:
    return not facts.by_itself or facts.action in limits.approved_actions or is_lemon(facts, limits)


def is_lemon(facts: GuardFacts, limits: HealingLimits) -> bool:
    return facts.remediations >= limits.lemon_remediations


def span(value: timedelta | float) -> str:
    seconds = max(0, round(value.total_seconds() if isinstance(value, timedelta) else value))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds} s"


def _kill_switch(facts: GuardFacts, _limits: HealingLimits) -> str:
    return f"The kill switch is on: {facts.kill_switch}" if facts.kill_switch else ""


def _person(facts: GuardFacts, _limits: HealingLimits) -> str:
    return f"Held: {facts.held_by_person}" if facts.held_by_person else ""


def _dry_run(facts: GuardFacts, _limits: HealingLimits) -> str:
    if facts.is_drill and not facts.is_on:
        return "Dry run: a drill that only says what would be done."
    if not facts.is_on:
        return "Dry run: healing is switched off for the whole installation."
    return "Dry run: healing is switched off for this cluster." if facts.dry_cluster else ""


def _one_at_a_time(facts: GuardFacts, _limits: HealingLimits) -> str:
    return facts.other_remediation


def _breaker(facts: GuardFacts, limits: HealingLimits) -> str:
    pool = facts.pool
    if pool.breaker:
        return f"The breaker of {pool.name} is open: {pool.breaker}"
    if opens_breaker(pool, limits):
        return (
            f"{pool.cordoned_lately + 1} of {pool.machines} machines of {pool.name} would be cordoned within "
            f"{span(limits.breaker_seconds)}: the breaker opens."
        )
    return ""


def opens_breaker(pool: PoolFacts, limits: HealingLimits) -> bool:
    """Whether one more cordon would be one too many."""
    return pool.cordoned_lately + 1 >= limits.breaker_at(pool.machines)


def _open_breaker(facts: GuardFacts, _limits: HealingLimits) -> str:
    return f"The breaker of {facts.pool.name} is open: {facts.pool.breaker}" if facts.pool.breaker else ""


def _domain(facts: GuardFacts, limits: HealingLimits) -> str:
    domain = facts.domain
    if not domain.name or facts.is_approved or domain.bad < limits.domain_at(domain.machines):
        return ""
    return (
        f"{domain.bad} of {domain.machines} machines of {domain.name} are bad: it is likely at fault, not "
        "each of them. Look at it, then approve its machines, all at once or one by one."
    )


def _lemon(facts: GuardFacts, limits: HealingLimits) -> str:
    if not is_lemon(facts, limits) or facts.is_approved:
        return ""
    return (
        f"The machine was acted on {facts.remediations} times within {span(limits.lemon_seconds)}: have it "
        "inspected, or approve another attempt."
    )


def _proposal(facts: GuardFacts, limits: HealingLimits) -> str:
    if facts.by_itself or facts.is_approved:
        return ""
    return f"{_asks(facts, limits, 'The rule proposes, a person approves')} {_full(facts, limits)}".rstrip()


def _approval(facts: GuardFacts, limits: HealingLimits) -> str:
    if facts.is_approved or facts.action not in limits.approved_actions:
        return ""
    return _asks(facts, limits, f"{facts.action} takes the approval of a person")


def _asks(facts: GuardFacts, limits: HealingLimits, why: str) -> str:
    left = timedelta(seconds=limits.approval_seconds) - facts.since_asked
    if left <= timedelta(0):
        return f"{why}, and nobody approved within {span(limits.approval_seconds)}."
    return f"{why}: waiting for approval."


def _nobody_approved(facts: GuardFacts, limits: HealingLimits) -> bool:
    return facts.since_asked >= timedelta(seconds=limits.approval_seconds)


def _wait(facts: GuardFacts, limits: HealingLimits) -> str:
    wait = limits.wait_for(facts.fault, facts.severity)
    if facts.fault_age >= wait or facts.is_approved:
        return ""
    return f"The first action waits {span(wait)} from the first sight of {facts.fault}."


def _cooldown(facts: GuardFacts, limits: HealingLimits) -> str:
    rest = timedelta(seconds=limits.cooldown_seconds)
    if facts.since_last is None or facts.since_last >= rest or facts.is_approved:
        return ""
    return f"The machine came back {span(facts.since_last)} ago: it has {span(rest)} before the next action."


def _window(facts: GuardFacts, _limits: HealingLimits) -> str:
    if not facts.windows or any(one.holds(facts.now) for one in facts.windows):
        return ""
    return f"Outside the maintenance windows: {', '.join(one.words for one in facts.windows)}."


def _full(facts: GuardFacts, limits: HealingLimits) -> str:
    pool = facts.pool
    most = limits.out_of_service(pool.machines)
    if pool.out_of_service < most:
        return ""
    others = f"{pool.out_of_service} other of {pool.machines} machines of {pool.name}"
    return f"{others} are out of service, {most} may be."


def _no_room(facts: GuardFacts, limits: HealingLimits) -> str:
    words = "" if facts.is_approved else _full(facts, limits)
    return words and f"{words} It is quarantined when one returns, or when a person approves it."


def _unhealthy(facts: GuardFacts, limits: HealingLimits) -> str:
    if facts.is_approved or facts.pool.machines <= limits.unhealthy_above:
        return ""
    words = _full(facts, limits)
    return words and f"{words} It is repaired when one returns, or when a person approves it."


def _rate(facts: GuardFacts, limits: HealingLimits) -> str:
    most = limits.repairs(facts.pool.machines)
    if facts.pool.repairs_lately < most:
        return ""
    return f"{facts.pool.repairs_lately} repairs in {facts.pool.name} within an hour; {most} are allowed."


def _spacing(facts: GuardFacts, limits: HealingLimits) -> str:
    since, least = facts.pool.since_drain, timedelta(seconds=limits.seconds_between_drains)
    if since is None or since >= least or facts.pool.machines == 1:
        return ""
    return f"The last drain in {facts.pool.name} began {span(since)} ago; {span(least)} lie between two."


def _slots(facts: GuardFacts, limits: HealingLimits) -> str:
    slots = limits.slots(facts.pool.machines)
    if facts.pool.slots_taken < slots:
        return ""
    return f"{facts.pool.slots_taken} of {slots} slots of {facts.pool.name} are taken."


GUARDS: Sequence[Guard] = (
    Guard("kill_switch", EVERY, _kill_switch, stops_all=True),
    Guard("person", EVERY, _person, stops_all=True),
    Guard("dry_run", EVERY, _dry_run),
    Guard("one_at_a_time", EVERY, _one_at_a_time),
    Guard("proposal", EVERY, _proposal, gives_up=_nobody_approved),
    Guard("domain", EVERY, _domain),
    Guard("breaker", QUARANTINE, _breaker, of_pool=True),
    Guard("breaker", REPAIR, _open_breaker, of_pool=True),
    Guard("unhealthy", QUARANTINE, _no_room, of_pool=True),
    Guard("lemon", REPAIR, _lemon),
    Guard("approval", REPAIR, _approval, gives_up=_nobody_approved),
    Guard("wait", REPAIR, _wait),
    Guard("cooldown", REPAIR, _cooldown),
    Guard("window", REPAIR, _window),
    Guard("unhealthy", REPAIR, _unhealthy, of_pool=True),
    Guard("rate", REPAIR, _rate, of_pool=True),
    Guard("spacing", REPAIR, _spacing, of_pool=True),
    Guard("slots", REPAIR, _slots, of_pool=True),
)


def windows_of(given: object) -> tuple[ActionWindow, ...]:
    """Read `[{"start": "22:00", "end": "05:00", "days": [0, 1], "time_zone": "UTC"}]`. Raises ValueError."""
    if not isinstance(given, list):
        raise ValueError("Maintenance windows must be a list.")
    return tuple(_window_of(one) for one in given)


def _window_of(given: Any) -> ActionWindow:
    if not isinstance(given, dict) or not {"start", "end"} <= given.keys():
        raise ValueError("A maintenance window needs a start and an end, such as 22:00 and 05:00.")
    try:
        start, end = (time.fromisoformat(str(given[name])) for name in ("start", "end"))
        zone = str(given.get("time_zone", "UTC"))
        ZoneInfo(zone)
    except (ValueError, LookupError, OSError):
        raise ValueError(
            "A maintenance window has times such as 22:00 and a time_zone such as Europe/Zurich."
        ) from None
    days = given.get("days", list(range(7)))
    if not isinstance(days, list) or not days or not set(days) <= set(range(7)):
        raise ValueError("Days of a maintenance window are numbers from 0 (Monday) to 6.")
    return ActionWindow(start=start, end=end, days=frozenset(days), time_zone=zone)
