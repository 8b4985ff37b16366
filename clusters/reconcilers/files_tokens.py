"""Machines that keep a cache of model files have a token to fetch them with, which never runs out."""

from datetime import datetime, timedelta

from django.db.models import F

from clusters.backends.configured import SECRETS_PURPOSE
from clusters.backends.kinds import abilities_of
from clusters.backends.kubernetes.settings import FileDeliveryKind, fetches_from_us
from clusters.backends.kubernetes.store_token import STORE_TOKEN
from clusters.models import Cluster, FilesToken
from clusters.services.files_tokens import issue_files_token
from common.actor import Actor
from common.reconcile import Operation, Step, StepOutcome, wait
from common.sealed import seal

RENEWED_BEFORE = timedelta(days=60)
"""Its end. The one before it is good until the next renewal, for pods that began with it."""
ACTOR = Actor.system("clusters")


class RenewFilesToken(Step[Cluster]):
    """Sealed into the row's secrets, whose backend hands it out."""

    name = "renew files token"

    def observe(self, row: Cluster, operation: Operation) -> None:
        """Nothing outside is asked."""

    def settle(self, row: Cluster, seen: None, now: datetime) -> StepOutcome:
        def write() -> None:
            issued = issue_files_token(actor=ACTOR, cluster=row, reason="renewed before it ends")
            held = Cluster.objects.select_for_update().get(pk=row.pk)
            sealed = held.sealed_secrets | {STORE_TOKEN: seal(issued.text, purpose=SECRETS_PURPOSE)}
            # Another revision is connected to anew.
            Cluster.objects.filter(pk=row.pk).update(sealed_secrets=sealed, revision=F("revision") + 1)

        # The row is read anew before anything else is done with it.
        return wait(timedelta(), write=write)


def is_due(row: Cluster, now: datetime) -> bool:
    settings = row.settings
    needs_one = fetches_from_us(
        settings.get("model_files", FileDeliveryKind.AUTO), settings.get("store_url", "")
    )
    if not abilities_of(row.kind).fetches_files or not needs_one:
        return False
    last = FilesToken.objects.filter(cluster=row, token__revoked_at=None).order_by("-pk")
    ends = last.values_list("token__expires_at", flat=True).first()
    return STORE_TOKEN not in row.sealed_secrets or ends is None or ends - RENEWED_BEFORE <= now
