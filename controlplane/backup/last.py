"""When the last good backup was made: its entry in the audit record, which is written once it is whole.

A database that was restored does not know the backup that it came from: the next one is due.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.conf import settings
from prometheus_client.metrics_core import Metric

from common import clock
from common.metrics import gauge
from common.models import AuditRecord

ACTION = "installation.backup"


def last_backup() -> datetime | None:
    """When the newest backup was whole; None: nobody has made one."""
    made = AuditRecord.objects.filter(action=ACTION).order_by("-seq").values_list("at", flat=True)
    return made.first()


def longest_age() -> timedelta | None:
    """Return how old the last backup may become; None when nobody has said."""
    hours: int = settings.SLIPWAY_BACKUP_MAX_AGE_HOURS
    return timedelta(hours=hours) if hours else None


def metrics() -> Iterator[Metric]:
    made, limit = last_backup(), longest_age()
    yield gauge(
        "backup_age_seconds",
        "Since the last good backup; missing: there is none.",
        (),
        [((), max(0.0, (clock.now() - made).total_seconds()))] if made else [],
    )
    yield gauge(
        "backup_age_limit_seconds",
        "How old it may become (SLIPWAY_BACKUP_MAX_AGE_HOURS); missing: nobody has said.",
        (),
        [((), limit.total_seconds())] if limit else [],
    )
