"""Checks of what every app shares: rows, disks, processes that take what is due."""

from collections.abc import Iterable
from datetime import timedelta

from django.utils.translation import gettext_lazy as _

from common import metrics
from common.alert_checks import AlertCheck, AlertFinding, beyond, measured
from common.disk import DiskState
from common.models import DiskCondition


def _disks(state: DiskState) -> Iterable[AlertFinding]:
    return [
        AlertFinding({"host": row.host, "path": row.path})
        for row in DiskCondition.objects.filter(state=state.value)
    ]


ALERT_CHECKS = (
    AlertCheck(
        name="SlipwayRowsStuck",
        title=_("Work stuck until somebody acts"),
        severity="warning",
        find=measured(metrics.work, "rows_stuck", by=("kind",)),
        note=_("Home says why, and lets it be tried again."),
    ),
    AlertCheck(
        name="SlipwayRowsOverdue",
        title=_("Work waits longer than it should"),
        severity="warning",
        find=measured(metrics.work, "rows_overdue", by=("kind",)),
        lasts=timedelta(minutes=2),
        note=_("Too few workers, or one that hangs: see the system status on Home."),
    ),
    AlertCheck(
        name="SlipwayLaneHung",
        title=_("Steps hang at an outside system"),
        severity="warning",
        find=measured(metrics.work, "lane_hung", by=("lane",)),
        lasts=timedelta(minutes=5),
        note=_("Other outside systems are not affected."),
    ),
    AlertCheck(
        name="SlipwayHostSilent",
        title=_("A host gives no sign of life, and work waits for it"),
        severity="critical",
        find=measured(metrics.hosts, "host_silent_rows", by=("host",)),
        lasts=timedelta(minutes=1),
        note=_("Start a worker there. If the machine is gone for good, give its cluster another host."),
    ),
    AlertCheck(
        name="SlipwayDiskLow",
        title=_("Disk almost full"),
        severity="warning",
        find=lambda: _disks(DiskState.LOW),
        metric=beyond("disk_state", by=("instance",), state="low"),
        lasts=timedelta(minutes=1),
        note=_("Free space soon. When it is full, nothing new is written."),
    ),
    AlertCheck(
        name="SlipwayDiskFull",
        title=_("Disk full"),
        severity="critical",
        find=lambda: _disks(DiskState.FULL),
        metric=beyond("disk_state", by=("instance",), state="full"),
        note=_("Nothing new is written. The gateway, workers and active releases continue. Free space."),
    ),
)
