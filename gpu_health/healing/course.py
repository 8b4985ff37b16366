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
    CordonOwner,
    FindingFacts,
    GuardRefusal,
    HealingDecision,
    IncidentFacts,
    IncidentMachine,
    IncidentStage,
    WorkProgress,
)
from gpu_health.healing.guards import span
from gpu_health.healing.limits import HealingLimits
from gpu_health.policy.rule import RemediationAction, Verification

RANKS: Sequence[RemediationAction] = (
    RemediationAction.IGNORE,
    RemediationAction.ALERT,
    RemediationAction.CONTACT_SUPPORT,
    RemediationAction.ENABLE_PERSISTENCE,
    RemediationAction.RESTART_APP,
    RemediationAction.RESTART_DAEMON,
    RemediationAction.RESTART_DEVICE_PLUGIN,
    RemediationAction.RESTART_FABRIC_MANAGER,
    RemediationAction.WITHDRAW_GPU,
    RemediationAction.CORDON,
    RemediationAction.DRAIN_P2P,
    RemediationAction.RECOVER_IMEX,
    RemediationAction.RESET_GPU,
    RemediationAction.RESET_BUS,
    RemediationAction.RESTART_DRIVER,
    RemediationAction.REBOOT,
    RemediationAction.POWER_CYCLE,
    RemediationAction.FIELD_DIAGNOSTIC,
    RemediationAction.REPLACE,
)
"""What does more comes later: a pending reboot supersedes a GPU reset."""


@dataclass(frozen=True, slots=True)
class IncidentInputs:
    incident: IncidentFacts
    findings: Sequence[FindingFacts]
    machine: IncidentMachine
    refusal: GuardRefusal | None
    now: datetime
    limits: HealingLimits


def rank(action: RemediationAction) -> int:
    return RANKS.index(action)


def next_step(
    incident: IncidentFacts,
    findings: Sequence[FindingFacts],
    machine: IncidentMachine,
    refusal: GuardRefusal | None,
    now: datetime,
    limits: HealingLimits,
) -> HealingDecision:
    """`findings`: all open ones of the machine. `refusal`: of the gate before the next stage, if it is at
    one; in other stages only of guards that stop everything."""
    if incident.stage in ENDED:
        return HealingDecision()
    if not machine.is_present:
        return HealingDecision(IncidentStage.CANCELLED, "The cluster has no such machine any more.")
    if refusal is not None and refusal.stops_all:
        return HealingDecision(words=refusal.words, hold=refusal.guard)
    if incident.cancel:
        return ended(incident, machine)
    if _was_taken_back(incident, machine):
        return HealingDecision(
            IncidentStage.RETURNING,
            "Somebody has uncordoned the machine: it is theirs. Nothing more is done to it.",
            changes={"cancel": "return"},
        )
    if incident.stage is not IncidentStage.ACTING and (worse := _worse(incident, findings, machine)):
        return _superseded(incident, worse)
    return _STAGES[incident.stage](IncidentInputs(incident, findings, machine, refusal, now, limits))


def is_stale(finding: FindingFacts, *, boot_id: str, since: datetime | None) -> bool:
    """Whether the finding is of before the machine was restarted, or repaired at `since`."""
    if finding.boot_id and boot_id and finding.boot_id != boot_id:
        return True
    return since is not None and finding.last_at <= since


def fresh(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: IncidentMachine
) -> list[FindingFacts]:
    """Return findings of this boot session, after the last action if there was one, the worst first."""
    found = [
        one
        for one in findings
        if one.is_actionable and not is_stale(one, boot_id=machine.boot_id, since=incident.acted_at)
    ]
    return sorted(found, key=lambda one: (-rank(one.ladder[0]), -one.severity.rank, one.pk))


def is_over(incident: IncidentFacts, machine: IncidentMachine) -> bool:
    """Whether there is nothing left to act on: the source has taken its fault back, a person has closed it,
    or the machine was restarted since. A verification that failed says otherwise."""
    lead = incident.lead
    if incident.check_failed:
        return False
    if lead is None or not lead.is_actionable:
        return True
    return is_stale(lead, boot_id=machine.boot_id, since=incident.acted_at)


def _was_taken_back(incident: IncidentFacts, machine: IncidentMachine) -> bool:
    """Whether somebody has uncordoned a machine that the incident keeps out of service."""
    if machine.cordon is not CordonOwner.NOBODY or incident.stage not in OUT_OF_SERVICE:
        return False
    if incident.stage in (IncidentStage.QUARANTINING, IncidentStage.RETURNING) or not incident.is_quarantined:
        return False
    return not (incident.stage is IncidentStage.ACTING and machine.act.progress is WorkProgress.RUNNING)


def _worse(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: IncidentMachine
) -> FindingFacts | None:
    """Return a finding whose ladder begins above all rungs reached so far, so that no two take turns."""
    if incident.stage in (IncidentStage.NEEDS_PERSON, IncidentStage.RETURNING):
        return None
    reached = max(rank(action) for action in incident.ladder[: incident.rung + 1])
    lead = incident.lead
    for one in fresh(incident, findings, machine):
        # The ladder of what leads may itself have become another: a second time is worse than a first.
        is_same = lead is not None and one.pk == lead.pk and one.ladder == incident.ladder
        if not is_same and rank(one.ladder[0]) > reached:
            return one
    return None


def _superseded(incident: IncidentFacts, worse: FindingFacts) -> HealingDecision:
    words = f"{worse.fault} is worse: {worse.ladder[0]} instead of {incident.action}."
    to: IncidentStage | None = None
    if incident.stage is not IncidentStage.PROPOSED:
        to = IncidentStage.QUARANTINED if incident.is_quarantined else IncidentStage.PROPOSED
        if incident.stage is IncidentStage.QUARANTINING or incident.stage is to:
            to = None
    return HealingDecision(to, words, rung=0, lead=worse, changes={"check_failed": False})


def _gate(refusal: GuardRefusal | None, to: IncidentStage, words: str) -> HealingDecision:
    if refusal is None:
        return HealingDecision(to, words)
    if refusal.gives_up:
        return HealingDecision(IncidentStage.NEEDS_PERSON, refusal.words, hold=refusal.guard)
    return HealingDecision(words=refusal.words, hold=refusal.guard)


def _proposed(case: IncidentInputs) -> HealingDecision:
    if is_over(case.incident, case.machine):
        others = fresh(case.incident, case.findings, case.machine)
        if others:
            return HealingDecision(words=f"{others[0].fault} leads now.", rung=0, lead=others[0])
        waived = case.incident.lead.waived if case.incident.lead else ""
        words = f"{waived} Nothing was done." if waived else "The fault is over, and nothing was done."
        return HealingDecision(IncidentStage.CANCELLED, words)
    if (changed := _led_anew(case)) is not None:
        return changed
    if (skipped := _told_only(case.incident)) is not None:
        return skipped
    if case.incident.action is RemediationAction.CONTACT_SUPPORT:
        decision = _gate(case.refusal, IncidentStage.NEEDS_PERSON, "The ladder asks for support.")
    elif case.incident.is_exhausted and not case.incident.action.touches_node:
        decision = _gate(case.refusal, IncidentStage.NEEDS_PERSON, "The ladder is at its end.")
    elif case.incident.action.touches_node:
        decision = _gate(case.refusal, IncidentStage.QUARANTINING, "No new pods are placed on the machine.")
    else:
        decision = _gate(case.refusal, IncidentStage.ACTING, f"{case.incident.action} needs no quarantine.")
    # Nothing was done yet: what nobody approves stays proposed.
    return replace(decision, to=None) if case.refusal is not None else decision


def _quarantining(case: IncidentInputs) -> HealingDecision:
    if case.machine.cordon is CordonOwner.NOBODY or not case.machine.has_taint:
        return HealingDecision()
    whose = " It was cordoned before, and stays so." if case.machine.cordon is CordonOwner.THEIRS else ""
    return HealingDecision(IncidentStage.QUARANTINED, f"The machine is cordoned and tainted.{whose}")


def _quarantined(case: IncidentInputs) -> HealingDecision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    if (changed := _led_anew(case)) is not None:
        return changed
    if case.incident.is_exhausted:
        return HealingDecision(IncidentStage.NEEDS_PERSON, "The ladder is at its end.")
    if (skipped := _told_only(case.incident)) is not None:
        return skipped
    if case.incident.action in FOR_PEOPLE and not (case.incident.drain.rank and case.machine.pods_left):
        return HealingDecision(
            IncidentStage.NEEDS_PERSON, f"The ladder asks for {case.incident.action}: that is a person's."
        )
    if case.incident.drain.rank:
        return _gate(case.refusal, IncidentStage.DRAINING, f"The pods leave before {case.incident.action}.")
    return _gate(case.refusal, IncidentStage.COLLECTING, "Evidence is collected before it is wiped.")


def _led_anew(case: IncidentInputs) -> HealingDecision | None:
    """Decide by the rules' present ladder where nothing was done yet; None: it has not changed."""
    incident, lead = case.incident, case.incident.lead
    if lead is None or incident.acted_at is not None or incident.rung or lead.ladder[0] in TOLD_ONLY:
        return None
    now = (lead.ladder, lead.drain, lead.verification)
    if incident.check_failed or now == (incident.ladder, incident.rule_drain, incident.verification):
        return None
    words = f"{lead.fault} is judged otherwise now: {' > '.join(lead.ladder)}."
    return HealingDecision(words=words, rung=0, lead=lead)


def _told_only(incident: IncidentFacts) -> HealingDecision | None:
    if incident.action not in TOLD_ONLY or incident.is_exhausted:
        return None
    return _escalated(incident, f"{incident.action}: the incident tells of it.")


def _nothing_left(
    incident: IncidentFacts, findings: Sequence[FindingFacts], machine: IncidentMachine, now: datetime
) -> HealingDecision:
    if others := fresh(incident, findings, machine):
        to = None if incident.stage is IncidentStage.QUARANTINED else IncidentStage.QUARANTINED
        return HealingDecision(to, f"{others[0].fault} leads now.", rung=0, lead=others[0])
    changes: dict[str, object] = {}
    over = (incident.lead.waived if incident.lead else "") or "The fault is over without an action."
    words = f"{over} The machine is verified before it returns."
    if incident.session and machine.boot_id and incident.session != machine.boot_id:
        words = "The machine was restarted meanwhile: it is verified instead of acted on."
        changes = {"session": machine.boot_id, "acted_at": now}
    return HealingDecision(IncidentStage.VERIFYING, words, changes=changes)


def _draining(case: IncidentInputs) -> HealingDecision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    drain = case.machine.drain
    if drain.progress is WorkProgress.SUCCEEDED:
        return HealingDecision(IncidentStage.COLLECTING, drain.words)
    if drain.has_ended:
        return HealingDecision(IncidentStage.NEEDS_PERSON, drain.words)
    if case.now - case.incident.stage_since > timedelta(seconds=case.limits.drain_seconds):
        why = f"The drain took over {span(case.limits.drain_seconds)}. {drain.words}"
        return HealingDecision(IncidentStage.NEEDS_PERSON, why.strip())
    return HealingDecision(words=drain.words)


def _collecting(case: IncidentInputs) -> HealingDecision:
    if is_over(case.incident, case.machine):
        return _nothing_left(case.incident, case.findings, case.machine, case.now)
    if case.machine.evidence.has_ended:
        words = f"{case.machine.evidence.words} {case.incident.action} begins.".strip()
        return HealingDecision(IncidentStage.ACTING, words)
    return HealingDecision()


def _acting(case: IncidentInputs) -> HealingDecision:
    act = case.machine.act
    if act.progress is WorkProgress.SUCCEEDED:
        changes: dict[str, object] = {"acted_at": case.now, "check_failed": False}
        if case.machine.boot_id:
            changes["session"] = case.machine.boot_id
        return HealingDecision(
            IncidentStage.VERIFYING, act.words or f"{case.incident.action} is done.", changes=changes
        )
    if act.progress in (WorkProgress.FAILED, WorkProgress.IMPOSSIBLE):
        return _escalated(case.incident, act.words or f"{case.incident.action} failed.")
    if case.now - case.incident.stage_since > timedelta(seconds=case.limits.action_seconds):
        return _escalated(
            case.incident,
            f"{case.incident.action} did not end within {span(case.limits.action_seconds)}: it has failed.",
        )
    return HealingDecision(words=act.words)


def _escalated(incident: IncidentFacts, why: str) -> HealingDecision:
    """Go to the next rung. A machine that is in service goes through the gate again, at the end of the
    ladder, too: it is not left there with its fault."""
    rung = incident.rung + 1
    if rung >= len(incident.ladder):
        to = IncidentStage.NEEDS_PERSON if incident.is_quarantined else IncidentStage.PROPOSED
        return HealingDecision(to, f"{why} The ladder is at its end.", rung=rung)
    to = IncidentStage.QUARANTINED if incident.is_quarantined else IncidentStage.PROPOSED
    return HealingDecision(
        None if to is incident.stage else to, f"{why} Next: {incident.ladder[rung]}.", rung=rung
    )


def _verifying(case: IncidentInputs) -> HealingDecision:
    if seen := fresh(case.incident, case.findings, case.machine):
        if case.incident.acted_at is not None:
            return _unhealed(case.incident, f"{seen[0].fault} was seen again after the action.")
        if not case.incident.check_failed:
            return HealingDecision(
                IncidentStage.QUARANTINED, f"{seen[0].fault} leads now.", rung=0, lead=seen[0]
            )
    if case.incident.verification is Verification.PERSON and not case.incident.returns_approved:
        return HealingDecision(words="A person says when this machine returns.", hold="verification")
    if case.incident.verification not in (Verification.NONE, Verification.PERSON):
        check = case.machine.check
        if check.progress is WorkProgress.FAILED:
            return _unhealed(case.incident, check.words or "The check failed.")
        if check.progress is WorkProgress.IMPOSSIBLE:
            if not case.incident.returns_approved:
                return HealingDecision(
                    words=f"{check.words} A person says whether the machine returns.",
                    hold="verification",
                )
        elif check.progress is not WorkProgress.SUCCEEDED:
            if case.now - case.incident.stage_since > timedelta(seconds=case.limits.check_seconds):
                return _unhealed(
                    case.incident, f"The check did not end within {span(case.limits.check_seconds)}."
                )
            return HealingDecision(words=check.words)
    quiet_since = max(case.incident.stage_since, case.incident.acted_at or case.incident.stage_since)
    if case.now - quiet_since < timedelta(seconds=case.limits.quiet_seconds):
        return HealingDecision(words="No fault may be seen for a while.")
    if not case.incident.is_quarantined:
        return HealingDecision(IncidentStage.WATCHING, "No fault since.")
    return HealingDecision(
        IncidentStage.RETURNING, f"{case.machine.check.words} The machine returns to service.".strip()
    )


def _unhealed(incident: IncidentFacts, why: str) -> HealingDecision:
    """A failed verification: the next rung, or the present one where nothing was tried yet."""
    if incident.acted_at is None and incident.rung == 0:
        return HealingDecision(IncidentStage.QUARANTINED, why, changes={"check_failed": True})
    return replace(_escalated(incident, why), changes={"check_failed": True})


def _returning(case: IncidentInputs) -> HealingDecision:
    if seen := fresh(case.incident, case.findings, case.machine):
        back = _escalated(case.incident, f"{seen[0].fault} was seen before the machine had returned.")
        # It may be half in service by now: first out of it.
        return replace(back, to=IncidentStage.QUARANTINING, changes={"check_failed": True})
    if is_free(case.machine):
        theirs = case.machine.cordon is CordonOwner.THEIRS
        words = "Back as it was: cordoned by somebody else." if theirs else "The machine is back in service."
        return HealingDecision(IncidentStage.WATCHING, words)
    return HealingDecision()


def _watching(case: IncidentInputs) -> HealingDecision:
    since = case.incident.acted_at or case.incident.stage_since
    seen = [one for one in fresh(case.incident, case.findings, case.machine) if one.last_at > since]
    if seen:
        back = _escalated(case.incident, f"{seen[0].fault} was seen again after the return.")
        return replace(back, changes={"check_failed": True})
    if case.now - case.incident.stage_since >= timedelta(seconds=case.limits.watch_seconds):
        return HealingDecision(IncidentStage.CLOSED, f"No fault for {span(case.limits.watch_seconds)}.")
    return HealingDecision()


def _needs_person(_case: IncidentInputs) -> HealingDecision:
    return HealingDecision()


_STAGES: Mapping[IncidentStage, Callable[[IncidentInputs], HealingDecision]] = {
    IncidentStage.PROPOSED: _proposed,
    IncidentStage.QUARANTINING: _quarantining,
    IncidentStage.QUARANTINED: _quarantined,
    IncidentStage.DRAINING: _draining,
    IncidentStage.COLLECTING: _collecting,
    IncidentStage.ACTING: _acting,
    IncidentStage.VERIFYING: _verifying,
    IncidentStage.RETURNING: _returning,
    IncidentStage.WATCHING: _watching,
    IncidentStage.NEEDS_PERSON: _needs_person,
}
