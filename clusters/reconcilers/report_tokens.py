"""Workers that report by themselves have a token of their deployment, which never runs out while it lives."""

from datetime import datetime, timedelta

from accounts.services.tokens import revoke_of_part
from clusters.models import Deployment, ReportToken
from clusters.report_tokens import REPORT_TOKEN_PURPOSE, reports_by_token
from clusters.services.report_tokens import TOKEN_LIFE, issue_report_token
from common.actor import Actor
from common.reconcile import Operation, Step, StepOutcome, wait
from common.sealed import seal

RENEWED_BEFORE = TOKEN_LIFE / 2
"""Its end. The one before it is good until it ends: the cluster may not answer just now, and a kubelet takes
minutes to bring a renewed Secret into running pods."""
ACTOR = Actor.system("clusters")


class RenewReportToken(Step[Deployment]):
    """Sealed into the row, whose next `Apply` brings it to the cluster."""

    name = "renew report token"

    def observe(self, row: Deployment, operation: Operation) -> None:
        """Nothing outside is asked."""

    def settle(self, row: Deployment, seen: None, now: datetime) -> StepOutcome:
        def write() -> None:
            issued = issue_report_token(actor=ACTOR, deployment=row, reason="renewed before it ends")
            sealed = seal(issued.text, purpose=REPORT_TOKEN_PURPOSE)
            Deployment.objects.filter(pk=row.pk).update(sealed_report_token=sealed)

        return wait(timedelta(), save={"applied_generation": 0}, write=write)


def is_due(row: Deployment, now: datetime) -> bool:
    """Also when somebody has revoked it."""
    if not reports_by_token(row.cluster.kind, row.cluster.settings):
        return False
    last = ReportToken.objects.filter(deployment=row, token__revoked_at=None).order_by("-pk")
    ends = last.values_list("token__expires_at", flat=True).first()
    return not row.sealed_report_token or ends is None or ends - RENEWED_BEFORE <= now


def end_report_tokens(row: Deployment) -> None:
    held = ReportToken.objects.filter(deployment=row, token__revoked_at=None)
    for one in held.select_related("token__owner"):
        revoke_of_part(actor=ACTOR, token=one.token, reason=f"{row.name} was removed")
