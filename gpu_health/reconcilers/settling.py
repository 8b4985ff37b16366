"""What a decision writes: on the incident, its timeline, its slot and its findings."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from common import events
from common.reconcile import StepOutcome, move, proceed, wait
from gpu_health.events import (
    IncidentApprovalAsked,
    IncidentEnded,
    NodeQuarantined,
    NodeReturned,
)
from gpu_health.healing.facts import (
    GuardRefusal,
    HealingDecision,
    IncidentMachine,
)
from gpu_health.incident_facts import (
    BY,
    lead_columns,
)
from gpu_health.models import Finding, Incident
from gpu_health.services.admission import release
from gpu_health.services.draining import stop_drain
from gpu_health.services.findings import settle_findings
from gpu_health.services.incidents import note
from gpu_health.states import ENDED_INCIDENTS, IncidentState

APPROVABLE = ("proposal", "approval", "lemon", "domain", "unhealthy", "verification")
"""Guards that a person's approval satisfies."""


@dataclass(frozen=True, slots=True)
class MachineObservation:
    """The result of a step's look at the machine."""

    machine: IncidentMachine
    refusal: GuardRefusal | None = None
    former_cordon: Mapping[str, str] | None = None
    """Of somebody else."""
    save: Mapping[str, Any] | None = None


def outcome_of(
    row: Incident, decision: HealingDecision, seen: MachineObservation, now: datetime, every: timedelta
) -> StepOutcome:
    climbs = decision.lead is not None or decision.rung is not None
    save: dict[str, Any] = {
        **(seen.save or {}),
        **decision.changes,
        "hold": decision.hold,
        "hold_reason": decision.words if decision.hold else "",
    }
    if decision.lead is not None:
        told = Finding.objects.filter(pk=decision.lead.pk).values_list("gpu_uuid", "rule").first() or ("", "")
        save |= lead_columns(decision.lead, *told)
    elif decision.rung is not None:
        save["rung"] = decision.rung
    if climbs:
        save |= {"climb": row.climb + 1, "asked_at": None, "check_result": None}
    asks = decision.hold in APPROVABLE and row.asked_at is None and not climbs
    if asks:
        save["asked_at"] = now
    elif row.waits_for_approval and not decision.hold:
        save["asked_at"] = None  # there is room by now: nobody has to approve any more

    def tell() -> None:
        if asks:
            events.publish(IncidentApprovalAsked(row.pk))
            note(row, now, row.state, BY, decision.words)

    if decision.to is None:
        if climbs:
            return proceed(
                save={**save, "reason": decision.words},
                write=lambda: note(row, now, row.state, BY, decision.words),
            )
        if decision.words and not decision.hold:
            save["reason"] = decision.words
        return wait(every, save=save, write=tell)
    to = IncidentState(decision.to.value)
    save |= {"state_since": now, "reason": decision.words}
    if to == IncidentState.QUARANTINING:
        save |= {"is_quarantined": True, "former_cordon": row.former_cordon}
    if seen.former_cordon and row.state == IncidentState.QUARANTINING:
        save["former_cordon"] = dict(seen.former_cordon)
    if to == IncidentState.ACTING:
        save |= {"acts": row.acts + 1, "session": row.session or seen.machine.boot_id}
    if to == IncidentState.VERIFYING:
        # Whoever approved the action has not approved the return.
        save |= {"climb": row.climb + 1, "asked_at": None, "returns_approved": False}
    if to == IncidentState.WATCHING:
        save |= {"returned_at": now, "is_quarantined": False}
    if to in ENDED_INCIDENTS:
        save |= {"ended_at": now, "is_quarantined": row.is_out_of_service and row.cancel == "leave"}

    def write() -> None:
        written(row, to, decision.words)

    is_done = to in ENDED_INCIDENTS and not row.has_operands_paused
    return move(to, note=decision.words, save=save, write=write, after=None if is_done else timedelta(0))


def written(row: Incident, to: IncidentState, why: str) -> None:
    """Do what else belongs to a change of state, in its transaction."""
    if row.state == IncidentState.DRAINING and to != IncidentState.COLLECTING:
        stop_drain(row, why or "The incident goes another way.")
    if to in (*ENDED_INCIDENTS, IncidentState.WATCHING, IncidentState.NEEDS_PERSON):
        release(row)
    if to == IncidentState.QUARANTINED:
        events.publish(NodeQuarantined(row.node_id, row.pk))
    returns = to == IncidentState.WATCHING or (to in ENDED_INCIDENTS and row.cancel == "return")
    if row.is_out_of_service and returns:
        events.publish(NodeReturned(row.node_id, row.pk))
    if to == IncidentState.CLOSED and row.acted_at is not None and row.drill_id is None:
        settle_findings(row.node_id, row.acted_at, f"Healed by incident {row.pk}.")
    if to in ENDED_INCIDENTS:
        events.publish(IncidentEnded(row.pk))
