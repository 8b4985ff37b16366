"""The heads of the audit record on their way out of the database, where who rewrites it cannot reach them."""

import logging
from datetime import datetime, timedelta

from django.conf import settings

from accounts.models import AuditExport
from accounts.services import webhooks
from accounts.states import AUDIT_HEAD
from common.audit import ChainHead, heads
from common.reconcile import Operation, Recurring, StepOutcome, wait

logger = logging.getLogger("slipway.audit")


class AuditExportReconciler(Recurring[AuditExport]):
    """A crash after the file was written only writes the same head again."""

    model = AuditExport
    name = "export head"

    def observe(self, row: AuditExport, operation: Operation) -> ChainHead | None:
        """The head that was added to the file; None when it is the last one still, or the file refuses it."""
        head = heads.current()
        if head is None or (head.seq, head.hash) == (row.seq, row.hash):
            return None
        try:
            heads.append(head)
        except OSError as error:
            logger.error("The head of the audit record cannot be written: %s. Trying again.", error)
            return None
        logger.info("Head %s", head.text)
        return head

    def settle(self, row: AuditExport, seen: ChainHead | None, now: datetime) -> StepOutcome:
        again = timedelta(seconds=settings.SLIPWAY_AUDIT_EXPORT_SECONDS)
        if seen is None:
            return wait(again)
        return wait(
            again,
            save={"seq": seen.seq, "hash": seen.hash, "exported_at": seen.at},
            write=lambda: webhooks.announce(AUDIT_HEAD, **seen.document),
        )
