"""How many GPUs a machine has is counted, learned, and said by people."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.services.rights import require_for_owner
from accounts.states import Right
from clusters.models import Gpu, Node
from clusters.states import GpuSharing, GpuState
from common import audit
from common.actor import Actor
from common.errors import Invalid
from common.live.touch import touch
from gpu_health.drills.marks import drill_of
from gpu_health.models import GpuCount
from gpu_health.signals.reading import GpuReading

AGENT, CLUSTER = "agent", "cluster"
COUNTED = "gpu.count"
"""The fact with which an agent says how many GPUs the driver has."""
MOST_GPUS = 64
_FEATURE_DISCOVERY = "nvidia.com/gpu.count"


def note_reported(node: Node, readings: Sequence[GpuReading], now: datetime) -> None:
    """Keep the agent's count of GPUs; those of a drill do not count."""
    counts = [one.value for one in readings if one.fault == COUNTED and drill_of(one) is None]
    if counts and counts[-1] is not None:
        _note(node, AGENT, int(counts[-1]), now)


def note_cluster(node: Node, now: datetime) -> None:
    """Keep the cluster's count of GPUs. MIG slices are no GPUs; with any, the count is unknown."""
    gpus = Gpu.objects.filter(node=node).exclude(state=GpuState.GONE)
    if gpus.filter(state=GpuState.UNKNOWN).exists():
        return
    is_split = gpus.filter(sharing=GpuSharing.MIG).exists() or any(
        "/mig-" in name and count for name, count in node.allocatable.items()
    )
    if is_split:
        _note(node, CLUSTER, None, now)
        return
    count, label = gpus.count(), str(node.labels.get(_FEATURE_DISCOVERY, ""))
    # Shares that are not labelled as such yet look like more GPUs.
    _note(node, CLUSTER, min(count, int(label)) if label.isdecimal() else count, now)


def _note(node: Node, source: str, count: int | None, now: datetime) -> None:
    with transaction.atomic():
        row = GpuCount.objects.filter(node=node).first()
        if row is None:
            if not count:
                return
            row = GpuCount.objects.get_or_create(node=node)[0]
        row.node = node
        before = (dict(row.present), dict(row.most), row.short_since)
        if count is None:
            row.present.pop(source, None)
        else:
            row.present[source] = count
            row.most[source] = max(row.most.get(source, 0), count)
        row.short_since = (row.short_since or now) if row.missing else None
        if (row.present, row.most, row.short_since) != before:
            row.save(update_fields=["present", "most", "short_since"])


def expect_gpus(*, actor: Actor, node: Node, count: int | None, reason: str) -> GpuCount:
    """Set how many GPUs the machine must have from now on. None: what labels and counts say.

    Raises NotAllowed, Invalid.
    """
    require_for_owner(actor, Right.FLEET_OPERATE, node.cluster.team)
    if not reason.strip():
        raise Invalid(fields={"reason": [_("Give a reason: whoever misses a GPU reads it.")]})
    if count is not None and not 0 <= count <= MOST_GPUS:
        raise Invalid(fields={"count": [_("Give 0 to %(most)s.") % {"most": MOST_GPUS}]})
    now = timezone.now()
    with transaction.atomic():
        row, _is_new = GpuCount.objects.get_or_create(node=node)
        row.node = node
        before = row.expected
        row.fixed, row.fixed_by, row.fixed_reason = count, actor.name, reason
        row.fixed_at = now
        row.short_since = (row.short_since or now) if row.missing else None
        row.save()
        audit.record(
            actor,
            "gpu_count.expect",
            subject=node,
            reason=reason,
            detail={"node": node.name, "before": before, "expected": row.expected},
            team_id=node.cluster.team_id,
        )
        touch("fleet")
    return row
