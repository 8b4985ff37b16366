"""An incident climbs its ladder: seeing and acting here, judging in `gpu_health.healing`."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from clusters.backends.configured import backend_of
from common import audit, events
from common.reconcile import Reconciler, Step
from gpu_health.events import (
    IncidentMoved,
)
from gpu_health.incident_facts import (
    ACTOR,
    BY,
    policy,
    stopping,
)
from gpu_health.models import Incident
from gpu_health.reconcilers.gates import AwaitPerson, GuardedStep, HoldIncident, WatchIncident
from gpu_health.reconcilers.quarantine import DrainNode, QuarantineNode, ReturnNode
from gpu_health.reconcilers.repair import CollectEvidence, ResumeOperands, TakeAction, VerifyRepair
from gpu_health.reconcilers.seeing import BackendOf, IncidentStep
from gpu_health.services.incidents import note
from gpu_health.states import INCIDENT_MOVES, IncidentState


class IncidentReconciler(Reconciler[Incident]):
    model = Incident
    moves = INCIDENT_MOVES

    def __init__(self, backend_of: BackendOf = backend_of) -> None:
        self.backend_of = backend_of

    def rows(self) -> QuerySet[Incident]:
        return Incident.objects.select_related("node__cluster", "drill")

    def lane_of(self, row: Incident) -> str:
        return row.node.cluster.own_lane

    def host_of(self, row: Incident) -> str:
        return row.node.cluster.host

    def log_fields(self, row: Incident) -> Mapping[str, Any]:
        return {"node": row.node.name}

    def next_step(self, row: Incident, now: datetime) -> Step[Incident] | None:
        if row.has_operands_paused and row.state != IncidentState.ACTING:
            return ResumeOperands(self.backend_of)
        if not row.is_open:
            return None
        refusal = stopping(row, policy())
        if refusal is not None and row.has_operands_paused:
            return ResumeOperands(self.backend_of)
        if refusal is not None:
            return HoldIncident(self.backend_of, refusal)
        stages: Mapping[str, Callable[[], IncidentStep]] = {
            IncidentState.PROPOSED: lambda: GuardedStep(self.backend_of, asks_machine=False),
            IncidentState.QUARANTINING: lambda: QuarantineNode(self.backend_of),
            IncidentState.QUARANTINED: lambda: GuardedStep(self.backend_of, asks_machine=True),
            IncidentState.DRAINING: lambda: DrainNode(self.backend_of),
            IncidentState.COLLECTING: lambda: CollectEvidence(self.backend_of),
            IncidentState.ACTING: lambda: TakeAction(self.backend_of),
            IncidentState.VERIFYING: lambda: VerifyRepair(self.backend_of),
            IncidentState.RETURNING: lambda: ReturnNode(self.backend_of),
            IncidentState.WATCHING: lambda: WatchIncident(self.backend_of),
            IncidentState.NEEDS_PERSON: lambda: AwaitPerson(self.backend_of),
        }
        return stages[row.state]()

    def on_move(self, row: Incident, to: str, note_: Any) -> None:
        at = Incident.objects.values_list("state_since", flat=True).get(pk=row.pk)
        note(row, at, to, BY, str(note_))
        audit.record(
            ACTOR,
            f"gpu_incident.{to}",
            subject=row,
            reason=str(note_),
            detail={"node": row.node.name, "fault": row.fault, "action": row.action},
            team_id=row.node.cluster.team_id,
        )
        events.publish(IncidentMoved(row.pk, to))
