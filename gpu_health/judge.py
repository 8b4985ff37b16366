"""Readings, rules and the state of a node in; verdicts out.

Pure: no clock, no files, no database, so that what was decided can be replayed, and what another rule would
have decided can be tried.

Four things hold whatever the rules are: a fault without a rule, or of a form that none of its rules speaks
of, alerts and never acts; one crash counts once, and so does an application that runs into the same fault
again; a failing detector never acts, nor does what it says while it fails; on drivers from r570 on the
driver's own recovery action outranks the ladder of the rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpu_health.evidence import FaultEvidence, Occurrences
from gpu_health.policy.rule import (
    DrainLevel,
    FaultRule,
    Mode,
    RemediationAction,
    Severity,
    Verification,
    version_key,
)
from gpu_health.signals.reading import NOTHING, GpuReading, ReadingKind
from gpu_health.signals.xid import RECOVERY_ACTION, RECOVERY_ACTIONS

RECOVERY_ACTION_SINCE = 570
"""The first driver branch that says what it needs."""


class VerdictOutcome(StrEnum):
    ACT = "act"
    PROPOSE = "propose"
    RECORD = "record"
    ALERT = "alert"
    WAIT = "wait"
    """Seen, but not yet as often as any rule asks for."""
    NONE = "none"
    """To be ignored, switched off, or over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedNode:
    """Facts about a node besides readings. `recovery_actions` (field 230) by bus or UUID of a GPU."""

    node: str = ""
    driver_version: str = ""
    uuids: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """Of GPUs, by their bus."""
    recovery_actions: Mapping[str, int] = field(default_factory=dict)
    boot: str = ""
    """Its present start, where that is known besides readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultVerdict:
    """The rules' answer to one fault of one device: what to do, and why."""

    fault: str
    node: str
    device: str
    """A GPU by its bus, else by its UUID; empty: the whole machine."""
    gpu_uuid: str
    severity: Severity
    outcome: VerdictOutcome
    ladder: tuple[RemediationAction, ...]
    drain: DrainLevel
    """Before the first action of the ladder."""
    verification: Verification
    rule: str
    """Empty: there is none."""
    citation: str
    reasons: tuple[str, ...]
    count: int
    first: GpuReading
    last: GpuReading

    @property
    def action(self) -> RemediationAction:
        return self.ladder[0]


def judge(
    readings: Iterable[GpuReading], rules: Sequence[FaultRule], state: JudgedNode | None = None
) -> tuple[FaultVerdict, ...]:
    """Return one verdict per fault and device, the most severe first, then in the order in which they began.

    Reads the readings once, in the order given, so that a log of any length can be judged while it is parsed.
    Memory is bounded by the number of devices and faults. Raises TooMuchEvidence beyond that.
    """
    state = state or JudgedNode()
    evidence = FaultEvidence(rules, driver=state.driver_version, uuids=state.uuids)
    for device, action in state.recovery_actions.items():
        evidence.note_recovery_action(device, action)
    for reading in readings:
        evidence.take(reading)
    evidence.end(state.boot)
    verdicts = [_verdict(found, evidence, rules, state) for found in evidence.occurrences()]
    # Sorting is stable: what is as severe stays in the order of its first reading.
    return tuple(sorted(verdicts, key=lambda verdict: -verdict.severity.rank))


def _verdict(
    found: Occurrences, evidence: FaultEvidence, rules: Sequence[FaultRule], state: JudgedNode
) -> FaultVerdict:
    reasons: list[str] = []
    held = [(rule, count) for rule, count in evidence.rules_held(found)]
    rule = max(
        (rule for rule, _ in held),
        key=lambda rule: (
            *(rule.mode is not Mode.OFF, rule.is_own),
            *(rule.severity.rank, rule.conditions.weight),
        ),
        default=None,
    )
    if found.fault == RECOVERY_ACTION:
        reasons.append(f"the driver asks for: {_recovery_words(found.last)}")
    if rule is None:
        ladder: tuple[RemediationAction, ...] = (RemediationAction.ALERT,)
        drain, verification, severity = DrainLevel.NONE, Verification.NONE, Severity.WARNING
        outcome, why = _without_rule(found, evidence, rules)
        reasons.append(why)
    else:
        ladder, drain, verification = rule.ladder, rule.drain, rule.verification
        severity = rule.severity
        outcome = _outcome_of(rule)
        reasons.append(_held_words(rule, found))
        if outcome is VerdictOutcome.NONE:
            reasons.append("the rule is off" if rule.mode is Mode.OFF else "the rule says to ignore it")
        elif found.fault != RECOVERY_ACTION:
            ladder, drain, told = _outranked(rule, found, evidence)
            reasons += told
    if (
        found.undescribed
        and outcome in (VerdictOutcome.NONE, VerdictOutcome.WAIT)
        and (rule is None or rule.mode is not Mode.OFF)
    ):
        ladder, drain, verification, outcome = (
            (RemediationAction.ALERT,),
            DrainLevel.NONE,
            Verification.NONE,
            VerdictOutcome.ALERT,
        )
        severity = max(severity, Severity.WARNING, key=lambda one: one.rank)
        reasons.append("no rule knows this form of the fault: it alerts and never acts")
    if found.cleared:
        outcome = VerdictOutcome.NONE
        reasons.append("it is over: the source has taken it back")
    elif found.last.kind is ReadingKind.DETECTOR and outcome in (
        VerdictOutcome.ACT,
        VerdictOutcome.PROPOSE,
        VerdictOutcome.RECORD,
    ):
        ladder, outcome = (RemediationAction.ALERT,), VerdictOutcome.ALERT
        reasons.append("a failing detector never acts")
    elif outcome in (VerdictOutcome.ACT, VerdictOutcome.PROPOSE) and evidence.is_failing(found.last.source):
        outcome = VerdictOutcome.ALERT
        reasons.append(f"its source, {found.last.source}, fails itself: what it says is not acted on")
    drains = max(drain, ladder[0].least_drain, key=lambda one: one.rank)
    return FaultVerdict(
        fault=found.fault,
        node=found.node or state.node,
        device=found.device,
        gpu_uuid=evidence.uuid_of(found),
        severity=severity,
        outcome=outcome,
        ladder=ladder,
        drain=drains if ladder[0].touches_node else DrainLevel.NONE,
        verification=verification,
        rule=rule.name if rule else "",
        citation=f"{rule.citation.source}: {rule.citation.says}" if rule else "",
        reasons=tuple(reasons),
        count=found.count,
        first=found.first,
        last=found.last,
    )


def _without_rule(
    found: Occurrences, evidence: FaultEvidence, rules: Sequence[FaultRule]
) -> tuple[VerdictOutcome, str]:
    asked = [rule for rule in rules if rule.fault == found.fault]
    if any(rule.enabled for rule in asked):
        nearest = min((rule for rule in asked if rule.enabled), key=lambda rule: rule.conditions.count)
        return (
            VerdictOutcome.WAIT,
            f"the conditions of {nearest.name} do not hold: {evidence.missing(nearest, found)}",
        )
    if asked:
        return VerdictOutcome.NONE, f"{asked[0].name} is disabled"
    return VerdictOutcome.ALERT, "no rule knows this fault: it alerts and never acts"


def _outcome_of(rule: FaultRule) -> VerdictOutcome:
    if rule.mode is Mode.OFF or rule.ladder[0] is RemediationAction.IGNORE:
        return VerdictOutcome.NONE
    if not rule.acts and rule.mode.rank > Mode.RECORD.rank:
        return VerdictOutcome.RECORD
    return VerdictOutcome(str(rule.mode))


def _outranked(
    rule: FaultRule, found: Occurrences, evidence: FaultEvidence
) -> tuple[tuple[RemediationAction, ...], DrainLevel, list[str]]:
    """The ladder that the driver asks for, where it says so and may be asked."""
    spoken = evidence.recovery_action(found.device)
    if spoken is None or not found.device:
        return rule.ladder, rule.drain, []
    branch = (version_key(evidence.driver) or (0,))[0]
    if evidence.driver and branch < RECOVERY_ACTION_SINCE:
        return rule.ladder, rule.drain, []
    value, rank = spoken
    words = RECOVERY_ACTIONS.get(value, f"unknown action {value}")
    if value == 0:
        if rank < found.last_rank:
            # Said before the fault: nothing about it.
            return rule.ladder, rule.drain, []
        harmless = tuple(action for action in rule.ladder if not action.touches_node) or (
            RemediationAction.ALERT,
        )
        return (
            harmless,
            DrainLevel.NONE,
            [f"the driver asks for nothing: {rule.name} may not touch the machine"],
        )
    theirs = next((other for other in evidence.rules_of_action(value) if other.enabled), None)
    if theirs is None:
        return (
            (RemediationAction.ALERT,),
            DrainLevel.NONE,
            [f"the driver asks for {words}, which no rule knows: it alerts"],
        )
    return (
        theirs.ladder,
        theirs.drain,
        [f"the driver's own verdict outranks the table: {words} ({theirs.name})"],
    )


def _held_words(rule: FaultRule, found: Occurrences) -> str:
    conditions = rule.conditions
    if conditions.count > 1:
        same = f" with the same {' and '.join(conditions.same)}" if conditions.same else ""
        return f"{rule.name}: {conditions.count} within {_span(conditions.window_seconds)}{same}"
    return f"{rule.name}: seen {'once' if found.count == 1 else f'{found.count} times'}"


def _recovery_words(reading: GpuReading) -> str:
    value = int(reading.value) if reading.value is not None else -1
    return RECOVERY_ACTIONS.get(value, f"unknown action {value}")


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
