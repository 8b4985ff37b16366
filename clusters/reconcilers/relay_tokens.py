"""The relay of a cluster has a token to report with, which never runs out."""

from datetime import datetime, timedelta

from django.db.models import F

from clusters.backends.configured import SECRETS_PURPOSE
from clusters.backends.kubernetes.relay import RELAY_TOKEN
from clusters.models import Cluster, RelayToken
from clusters.report_tokens import has_relay
from clusters.services.report_tokens import issue_relay_token
from common.actor import Actor
from common.reconcile import Operation, Step, StepOutcome, wait
from common.sealed import seal

RENEWED_BEFORE = timedelta(days=60)
ACTOR = Actor.system("clusters")


class RenewRelayToken(Step[Cluster]):
    """Sealed into the row's secrets, which the checks hand out."""

    name = "renew relay token"

    def observe(self, row: Cluster, operation: Operation) -> None:
        """Nothing outside is asked."""

    def settle(self, row: Cluster, seen: None, now: datetime) -> StepOutcome:
        def write() -> None:
            issued = issue_relay_token(actor=ACTOR, cluster=row, reason="renewed before it ends")
            held = Cluster.objects.select_for_update().get(pk=row.pk)
            sealed = held.sealed_secrets | {RELAY_TOKEN: seal(issued.text, purpose=SECRETS_PURPOSE)}
            Cluster.objects.filter(pk=row.pk).update(
                sealed_secrets=sealed, revision=F("revision") + 1, check_asked_at=now
            )

        return wait(timedelta(), write=write)


def is_relay_token_due(row: Cluster, now: datetime) -> bool:
    """Also when somebody has revoked it."""
    if not has_relay(row.kind, row.settings):
        return False
    last = RelayToken.objects.filter(cluster=row, token__revoked_at=None).order_by("-pk")
    ends = last.values_list("token__expires_at", flat=True).first()
    return RELAY_TOKEN not in row.sealed_secrets or ends is None or ends - RENEWED_BEFORE <= now
