"""The course of an incident: where it stands, what is seen and what guards say in; where it goes out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpu_health.healing.ending import ended, is_free
from gpu_health.healing.facts import (
    ENDED,
    FOR_PEOPLE,
    OUT_OF_SERVICE,
    TOLD_ONLY,
    Decision,
    FindingFacts,
    IncidentFacts,
    MachineFacts,
    Progress,
    Refusal,
    Stage,
    Whose,
)
from gpu_health.healing.guards import span
from gpu_health.healing.limits import Limits
from gpu_health.policy.rule import Action, Verification

RANKS: Sequence[Action] = (
    Action.IGNORE,
    Action.ALERT,
    Action.CONTACT_SUPPORT,
    Action.ENABLE_PERSISTENCE,
    Action.RESTART_APP,
    Action.RESTART_DAEMON,
    Action.RESTART_DEVICE_PLUGIN,
    Action.RESTART_FABRIC_MANAGER,
    Action.WITHDRAW_GPU,
    Action.CORDON,
    Action.DRAIN_P2P,
    Action.RECOVER_IMEX,
    Action.RESET_GPU,
    Action.RESET_BUS,
    Action.RESTART_DRIVER,
    Action.REBOOT,
    Action.POWER_CYCLE,
    Action.FIELD_DIAGNOSTIC,
    Action.REPLACE,
)
"""What does more comes later: a pending reboot supersedes a GPU reset."""


@dataclass(frozen=True, slots=True)
class Case:
    incident: IncidentFacts
    findings: Sequence[FindingFacts]
    machine: MachineFacts
    refusal: Refusal | None
    now: datetime
    limits: Limits


def rank(action: Action) -> int:
    return RANKS.index(action)


def next_step(
    incident: IncidentFacts,
    findings: Sequence[FindingFacts],
    machine: MachineFacts,
    refusal: Refusal | None,
    now: datetime,
    limits: Limits,
) -> Decision:
    """`findings`: all open ones of the machine. `refusal`: of the gate before the next stage, if it is at
    one; in other stages only of guards that stop everything."""
    if incident.stage in ENDED:
        return Decision()
    if not machine.is_present:
        return Decision(Stage.CANCELLED, "The cluster has no such machine any more.")
    if refusal is not None and refusal.stops_all:
        return Decision(words=refusal.words, hold=refusal.guard)
    if incident.cancel:
        return ended(incident, machine)
    if _was_taken_back(incident, machine):
        return Decision(
            Stage.RETURNING,
            "Somebody has uncordoned the machine: it is theirs. Nothing more is done to it.",
            changes={"cancel": "return"},
        )
    if incident.stage is not Stage.ACTING and (worse := _worse(incident, findings, machine)):
        return _superseded(incident, worse)
    return _STAGES[incident.stage](Case(incident, findings, machine, refusal, now, limits))


def is_stale(finding: FindingFacts, *, boot_id: str, since: datetime | None) -> bool:
    """Whether the finding is of before the machine was restarted, or repaired at `since`."""
    if finding.boot_id and boot_id and finding.boot_id != boot_id:
        return True
    return since is not None and finding.last_at <= since


def fresh(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: MachineFacts
) -> list[FindingFacts]:
    """What was seen in this session, after the last action if there was one, the worst first."""
    found = [
        one
        for one in findings
        if one.is_actionable and not is_stale(one, boot_id=machine.boot_id, since=incident.acted_at)
    ]
    return sorted(found, key=lambda one: (-rank(one.ladder[0]), -one.severity.rank, one.pk))


def is_over(incident: IncidentFacts, machine: MachineFacts) -> bool:
    """Whether there is nothing left to act on: the source has taken its fault back, a person has closed it,
    or the machine was restarted since. A verification that failed says otherwise."""
    lead = incident.lead
    if incident.check_failed:
        return False
    if lead is None or not lead.is_actionable:
        return True
    return is_stale(lead, boot_id=machine.boot_id, since=incident.acted_at)


def _was_taken_back(incident: IncidentFacts, machine: MachineFacts) -> bool:
    """Whether somebody has uncordoned a machine that the incident keeps out of service."""
    if machine.cordon is not Whose.NOBODY or incident.stage not in OUT_OF_SERVICE:
        return False
    if incident.stage in (Stage.QUARANTINING, Stage.RETURNING) or not incident.is_quarantined:
        return False
    return not (incident.stage is Stage.ACTING and machine.act.progress is Progress.RUNNING)


def _worse(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: MachineFacts
) -> FindingFacts | None:
    """Whose ladder begins above all that was reached on the present one, so that no two take turns."""
    if incident.stage in (Stage.NEEDS_PERSON, Stage.RETURNING):
        return None
    reached = max(rank(action) for action in incident.ladder[: incident.rung + 1])
    lead = incident.lead
    for one in fresh(incident, findings, machine):
        # The ladder of what leads may itself have become another: a second time is worse than a first.
        is_same = lead is not None and one.pk == lead.pk and one.ladder == incident.ladder
        if not is_same and rank(one.ladder[0]) > reached:
            return one
    return None


def _superseded(incident: IncidentFacts, worse: FindingFacts) -> Decision:
    words = f"{worse.fault} is worse: {worse.ladder[0]} instead of {incident.action}."
    to: Stage | None = None
    if incident.stage is not Stage.PROPOSED:
        to = Stage.QUARANTINED if incident.is_quarantined else Stage.PROPOSED
        if incident.stage is Stage.QUARANTINING or incident.stage is to:
            to = None
    return Decision(to, words, rung=0, lead=worse, changes={"check_failed": False})


def _gate(refusal: Refusal | None, to: Stage, words: str) -> Decision:
    if refusal is None:
        return Decision(to, words)
    if refusal.gives_up:
        return Decision(Stage.NEEDS_PERSON, refusal.words, hold=refusal.guard)
    return Decision(words=refusal.words, hold=refusal.guard)


def _proposed(case: Case) -> Decision:
    if is_over(case.incident, case.machine):
        others = fresh(case.incident, case.findings, case.machine)
        if others:
            return Decision(words=f"{others[0].fault} leads now.", rung=0, lead=others[0])
        waived = case.incident.lead.waived if case.incident.lead else ""
        words = f"{waived} Nothing was done." if waived else "The fault is over, and nothing was done."
        return Decision(Stage.CANCELLED, words)
    if (changed := _led_anew(case)) is not None:
        return changed
    if (skipped := _told_only(case.incident)) is not None:
        return skipped
    if case.incident.action is Action.CONTACT_SUPPORT:
        decision = _gate(case.refusal, Stage.NEEDS_PERSON, "The ladder asks for support.")
    elif case.incident.is_exhausted and not case.incident.action.touches_node:
        decision = _gate(case.refusal, Stage.NEEDS_PERSON, "The ladder is at its end.")
    elif case.incident.action.touches_node:
        decision = _gate(case.refusal, Stage.QUARANTINING, "No new pods are placed on the machine.")
    else:
        decision = _gate(case.refusal, Stage.ACTING, f"{case.incident.action} needs no quarantine.")
    # Nothing was done yet: what nobody approves stays proposed.
    return replace(decision, to=None) if case.refusal is not None else decision


def _quarantining(case: Case) -> Decision:
    if case.machine.cordon is Whose.NOBODY or not case.machine.has_taint:
        return Decision()
    whose = " It was cordoned before, and stays so." if case.machine.cordon is Whose.THEIRS else ""
    return Decision(Stage.QUARANTINED, f"The machine is cordoned and tainted.{whose}")


def _quarantined(case: Case) -> Decision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    if (changed := _led_anew(case)) is not None:
        return changed
    if case.incident.is_exhausted:
        return Decision(Stage.NEEDS_PERSON, "The ladder is at its end.")
    if (skipped := _told_only(case.incident)) is not None:
        return skipped
    if case.incident.action in FOR_PEOPLE and not (case.incident.drain.rank and case.machine.pods_left):
        return Decision(
            Stage.NEEDS_PERSON, f"The ladder asks for {case.incident.action}: that is a person's."
        )
    if case.incident.drain.rank:
        return _gate(case.refusal, Stage.DRAINING, f"The pods leave before {case.incident.action}.")
    return _gate(case.refusal, Stage.COLLECTING, "Evidence is collected before it is wiped.")


def _led_anew(case: Case) -> Decision | None:
    """Where nothing was done yet, by the ladder that the rules say now."""
    incident, lead = case.incident, case.incident.lead
    if lead is None or incident.acted_at is not None or incident.rung or lead.ladder[0] in TOLD_ONLY:
        return None
    now = (lead.ladder, lead.drain, lead.verification)
    if incident.check_failed or now == (incident.ladder, incident.rule_drain, incident.verification):
        return None
    words = f"{lead.fault} is judged otherwise now: {' > '.join(lead.ladder)}."
    return Decision(words=words, rung=0, lead=lead)


def _told_only(incident: IncidentFacts) -> Decision | None:
    if incident.action not in TOLD_ONLY or incident.is_exhausted:
        return None
    return _escalated(incident, f"{incident.action}: the incident tells of it.")


def _nothing_left(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: MachineFacts, now: datetime
) -> Decision:
    if others := fresh(incident, findings, machine):
        to = None if incident.stage is Stage.QUARANTINED else Stage.QUARANTINED
        return Decision(to, f"{others[0].fault} leads now.", rung=0, lead=others[0])
    changes: dict[str, object] = {}
    over = (incident.lead.waived if incident.lead else "") or "The fault is over without an action."
    words = f"{over} The machine is verified before it returns."
    if incident.session and machine.boot_id and incident.session != machine.boot_id:
        words = "The machine was restarted meanwhile: it is verified instead of acted on."
        changes = {"session": machine.boot_id, "acted_at": now}
    return Decision(Stage.VERIFYING, words, changes=changes)


def _draining(case: Case) -> Decision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    drain = case.machine.drain
    if drain.progress is Progress.SUCCEEDED:
        return Decision(Stage.COLLECTING, drain.words)
    if drain.has_ended:
        return Decision(Stage.NEEDS_PERSON, drain.words)
    if case.now - case.incident.stage_since > timedelta(seconds=case.limits.drain_seconds):
        why = f"The drain took over {span(case.limits.drain_seconds)}. {drain.words}"
        return Decision(Stage.NEEDS_PERSON, why.strip())
    return Decision(words=drain.words)


def _collecting(case: Case) -> Decision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    if case.machine.evidence.has_ended:
        words = f"{case.machine.evidence.words} {case.incident.action} begins.".strip()
        return Decision(Stage.ACTING, words)
    return Decision()


def _acting(case: Case) -> Decision:
    act = case.machine.act
    if act.progress is Progress.SUCCEEDED:
        changes: dict[str, object] = {"acted_at": case.now, "check_failed": False}
        if case.machine.boot_id:
            changes["session"] = case.machine.boot_id
        return Decision(Stage.VERIFYING, act.words or f"{case.incident.action} is done.", changes=changes)
    if act.progress in (Progress.FAILED, Progress.IMPOSSIBLE):
        return _escalated(case.incident, act.words or f"{case.incident.action} failed.")
    if case.now - case.incident.stage_since > timedelta(seconds=case.limits.action_seconds):
        return _escalated(
            case.incident,
            f"{case.incident.action} did not end within {span(case.limits.action_seconds)}: it has failed.",
        )
    return Decision(words=act.words)


def _escalated(incident: IncidentFacts, why: str) -> Decision:
    """Go to the next rung. A machine that is in service goes through the gate again, at the end of the
    ladder, too: it is not left there with its fault."""
    rung = incident.rung + 1
    if rung >= len(incident.ladder):
        to = Stage.NEEDS_PERSON if incident.is_quarantined else Stage.PROPOSED
        return Decision(to, f"{why} The ladder is at its end.", rung=rung)
    to = Stage.QUARANTINED if incident.is_quarantined else Stage.PROPOSED
    return Decision(None if to is incident.stage else to, f"{why} Next: {incident.ladder[rung]}.", rung=rung)


def _verifying(case: Case) -> Decision:
    if seen := fresh(case.incident, case.findings, case.machine):
        if case.incident.acted_at is not None:
            return _unhealed(case.incident, f"{seen[0].fault} was seen again after the action.")
        if not case.incident.check_failed:
            return Decision(Stage.QUARANTINED, f"{seen[0].fault} leads now.", rung=0, lead=seen[0])
    if case.incident.verification is Verification.PERSON and not case.incident.returns_approved:
        return Decision(words="A person says when this machine returns.", hold="verification")
    if case.incident.verification not in (Verification.NONE, Verification.PERSON):
        check = case.machine.check
        if check.progress is Progress.FAILED:
            return _unhealed(case.incident, check.words or "The check failed.")
        if check.progress is Progress.IMPOSSIBLE:
            if not case.incident.returns_approved:
                return Decision(
                    words=f"{check.words} A person says whether the machine returns.",
                    hold="verification",
                )
        elif check.progress is not Progress.SUCCEEDED:
            if case.now - case.incident.stage_since > timedelta(seconds=case.limits.check_seconds):
                return _unhealed(
                    case.incident, f"The check did not end within {span(case.limits.check_seconds)}."
                )
            return Decision(words=check.words)
    quiet_since = max(case.incident.stage_since, case.incident.acted_at or case.incident.stage_since)
    if case.now - quiet_since < timedelta(seconds=case.limits.quiet_seconds):
        return Decision(words="No fault may be seen for a while.")
    if not case.incident.is_quarantined:
        return Decision(Stage.WATCHING, "No fault since.")
    return Decision(Stage.RETURNING, f"{case.machine.check.words} The machine returns to service.".strip())


def _unhealed(incident: IncidentFacts, why: str) -> Decision:
    """A failed verification: the next rung, or the present one where nothing was tried yet."""
    if incident.acted_at is None and incident.rung == 0:
        return Decision(Stage.QUARANTINED, why, changes={"check_failed": True})
    return replace(_escalated(incident, why), changes={"check_failed": True})


def _returning(case: Case) -> Decision:
    if seen := fresh(case.incident, case.findings, case.machine):
        back = _escalated(case.incident, f"{seen[0].fault} was seen before the machine had returned.")
        # It may be half in service by now: first out of it.
        return replace(back, to=Stage.QUARANTINING, changes={"check_failed": True})
    if is_free(case.machine):
        theirs = case.machine.cordon is Whose.THEIRS
        words = "Back as it was: cordoned by somebody else." if theirs else "The machine is back in service."
        return Decision(Stage.WATCHING, words)
    return Decision()


def _watching(case: Case) -> Decision:
    since = case.incident.acted_at or case.incident.stage_since
    seen = [one for one in fresh(case.incident, case.findings, case.machine) if one.last_at > since]
    if seen:
        back = _escalated(case.incident, f"{seen[0].fault} was seen again after the return.")
        return replace(back, changes={"check_failed": True})
    if case.now - case.incident.stage_since >= timedelta(seconds=case.limits.watch_seconds):
        return Decision(Stage.CLOSED, f"No fault for {span(case.limits.watch_seconds)}.")
    return Decision()


def _needs_person(_case: Case) -> Decision:
    return Decision()


_STAGES: Mapping[Stage, Callable[[Case], Decision]] = {
    Stage.PROPOSED: _proposed,
    Stage.QUARANTINING: _quarantining,
    Stage.QUARANTINED: _quarantined,
    Stage.DRAINING: _draining,
    Stage.COLLECTING: _collecting,
    Stage.ACTING: _acting,
    Stage.VERIFYING: _verifying,
    Stage.RETURNING: _returning,
    Stage.WATCHING: _watching,
    Stage.NEEDS_PERSON: _needs_person,
}
