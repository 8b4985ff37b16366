"""A machine that shows fewer GPUs than it must have becomes a reading, and so does their return."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from clusters.states import NodeState
from gpu_health.models import GpuCount
from gpu_health.services.gpu_counts import AGENT
from gpu_health.services.readings import store_readings
from gpu_health.signals.reading import GpuReading, ReadingClock, ReadingKind, ReadingSource

MISSING = "gpu.count_mismatch"
SETTLES = timedelta(minutes=2)
"""A count that is short for less is a driver or a plugin that restarts."""
NONE_SETTLES = timedelta(minutes=10)
"""While the device plugin is upgraded a cluster shows none at all."""


def report_missing(now: datetime) -> None:
    """Say what is missing for long enough, and what is back."""
    rows = GpuCount.objects.filter(
        Q(short_since__lte=now - SETTLES, is_reported=False) | Q(short_since=None, is_reported=True)
    )
    for row in rows.exclude(node__state=NodeState.GONE).select_related("node__cluster").order_by("pk"):
        if row.short_since is None:
            _report(row, now, ReadingKind.CLEARED, f"{row.expected} of {row.expected} GPUs")  # untranslated
        elif row.missing is not None:
            count, expected = row.missing
            if count or row.short_since <= now - NONE_SETTLES:
                words = f"{count} of {expected} GPUs"  # untranslated
                _report(row, now, ReadingKind.FAULT, words, float(count))


def _report(row: GpuCount, now: datetime, kind: ReadingKind, words: str, count: float | None = None) -> None:
    source = ReadingSource.NVML if AGENT in row.present else ReadingSource.DEVICE_PLUGIN
    reading = GpuReading(
        source=source,
        fault=MISSING,
        kind=kind,
        at=now.timestamp(),
        clock=ReadingClock.EPOCH,
        node=row.node.name,
        value=count,
        raw=words,
        origin=f"gpu-count-{row.node_id}/{kind}/{now.timestamp():.3f}",
    )
    with transaction.atomic():
        GpuCount.objects.filter(pk=row.pk).update(is_reported=kind is ReadingKind.FAULT)
        store_readings(row.node, [reading])
