"""How an incident ends before its course does."""

from gpu_health.healing.facts import Decision, IncidentFacts, MachineFacts, Progress, Stage, Whose


def ended(incident: IncidentFacts, machine: MachineFacts) -> Decision:
    """Of an incident that somebody has cancelled, or whose drill is over."""
    if incident.cancel == "over":
        return _over(incident, machine)
    if incident.stage is Stage.ACTING and machine.act.progress is Progress.RUNNING:
        return Decision(words=f"Cancelled; {incident.action} is under way and is waited for.")
    if incident.cancel == "return" and incident.is_quarantined:
        if incident.stage is not Stage.RETURNING:
            return Decision(Stage.RETURNING, "Cancelled: the machine returns to service unverified.")
        if not is_free(machine):
            return Decision()
    words = "Cancelled."
    if incident.cancel == "leave" and incident.is_quarantined:
        words = "Cancelled. The machine stays out of service until somebody uncordons it."
    return Decision(Stage.CANCELLED, words)


def _over(incident: IncidentFacts, machine: MachineFacts) -> Decision:
    """Of a drill: its fault is withdrawn, so nothing is left to verify."""
    if incident.stage is Stage.ACTING and machine.act.progress is Progress.RUNNING:
        return Decision(words=f"The drill is over; {incident.action} is under way and is waited for.")
    if incident.is_quarantined and incident.stage is not Stage.RETURNING:
        return Decision(Stage.RETURNING, "The drill is over: the machine returns to service.")
    if incident.is_quarantined:
        return Decision(Stage.WATCHING, "The machine is back in service.") if is_free(machine) else Decision()
    if incident.stage is Stage.WATCHING:
        return Decision(Stage.CLOSED, "The drill is over, and the machine is in service.")
    return Decision(Stage.CLOSED, "The drill is over. The machine was in service all the time.")


def is_free(machine: MachineFacts) -> bool:
    """Whether nothing of ours keeps pods off it."""
    return machine.cordon is not Whose.OURS and not machine.has_taint
