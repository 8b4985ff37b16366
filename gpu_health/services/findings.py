from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from common import audit, clock, events
from common.actor import Actor
from gpu_health.errors import FindingAlreadyEnded as Ended
from gpu_health.events import FindingEnded
from gpu_health.models import Finding
from gpu_health.states import FindingOutcome, FindingState


def close_finding(*, actor: Actor, finding: Finding, reason: str) -> Finding:
    """Close a finding: its readings count no more. Raises NotAllowed, FindingAlreadyEnded."""
    require_for_owner(actor, Right.FLEET_OPERATE, finding.node.cluster.team)
    with transaction.atomic():
        closed = Finding.objects.filter(pk=finding.pk, state=FindingState.OPEN).update(
            state=FindingState.CLOSED,
            ended_at=clock.now(),
            closed_by=actor.name,
            close_reason=reason,
        )
        if not closed:
            raise Ended(_("This finding is not open any more."))
        detail = {"fault": finding.fault, "node": finding.node.name, "device": finding.device}
        team_id = finding.node.cluster.team_id
        events.publish(FindingEnded(finding.pk))
        audit.record(
            actor, "gpu_finding.close", subject=finding, reason=reason, detail=detail, team_id=team_id
        )
    finding.refresh_from_db()
    return finding


def settle_findings(node_id: int, until: datetime, why: str) -> None:
    """Close findings last seen by `until` as dealt with. Call inside the caller's transaction."""
    rows = Finding.objects.filter(node_id=node_id, state=FindingState.OPEN, last_at__lte=until)
    for row in rows.exclude(outcome=FindingOutcome.ALERT):
        if Finding.objects.filter(pk=row.pk, state=FindingState.OPEN).update(
            state=FindingState.CLOSED, ended_at=clock.now(), closed_by="gpu-health", close_reason=why
        ):
            events.publish(FindingEnded(row.pk))
