"""How an incident ends before its course does."""

from gpu_health.healing.facts import (
    CordonOwner,
    HealingDecision,
    IncidentFacts,
    IncidentMachine,
    IncidentStage,
    WorkProgress,
)


def ended(incident: IncidentFacts, machine: IncidentMachine) -> HealingDecision:
    """Decide the end of an incident that was cancelled, or whose drill is over."""
    if incident.cancel == "over":
        return _over(incident, machine)
    if incident.stage is IncidentStage.ACTING and machine.act.progress is WorkProgress.RUNNING:
        return HealingDecision(words=f"Cancelled; {incident.action} is under way and is waited for.")
    if incident.cancel == "return" and incident.is_quarantined:
        if incident.stage is not IncidentStage.RETURNING:
            return HealingDecision(
                IncidentStage.RETURNING, "Cancelled: the machine returns to service unverified."
            )
        if not is_free(machine):
            return HealingDecision()
    words = "Cancelled."
    if incident.cancel == "leave" and incident.is_quarantined:
        words = "Cancelled. The machine stays out of service until somebody uncordons it."
    return HealingDecision(IncidentStage.CANCELLED, words)


def _over(incident: IncidentFacts, machine: IncidentMachine) -> HealingDecision:
    """Decide the end of a drill: its fault is withdrawn, so nothing is left to verify."""
    if incident.stage is IncidentStage.ACTING and machine.act.progress is WorkProgress.RUNNING:
        return HealingDecision(words=f"The drill is over; {incident.action} is under way and is waited for.")
    if incident.is_quarantined and incident.stage is not IncidentStage.RETURNING:
        return HealingDecision(IncidentStage.RETURNING, "The drill is over: the machine returns to service.")
    if incident.is_quarantined:
        return (
            HealingDecision(IncidentStage.WATCHING, "The machine is back in service.")
            if is_free(machine)
            else HealingDecision()
        )
    if incident.stage is IncidentStage.WATCHING:
        return HealingDecision(IncidentStage.CLOSED, "The drill is over, and the machine is in service.")
    return HealingDecision(
        IncidentStage.CLOSED, "The drill is over. The machine was in service all the time."
    )


def is_free(machine: IncidentMachine) -> bool:
    """Whether nothing of ours keeps pods off it."""
    return machine.cordon is not CordonOwner.OURS and not machine.has_taint
