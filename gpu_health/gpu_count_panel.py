"""How many GPUs a machine has, on its page."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from clusters.models import Node
from gpu_health.forms import ExpectedGpusForm
from gpu_health.models import GpuCount
from gpu_health.services.gpu_counts import AGENT, CLUSTER


def gpu_count_panel(node: Node) -> Mapping[str, Any] | None:
    """Return the values of the panel; None: nobody has ever counted a GPU there."""
    row = GpuCount.objects.filter(node=node).first()
    if row is None:
        return None
    row.node = node
    names = {CLUSTER: _("Present, by the cluster"), AGENT: _("Present, by the agent")}
    return {
        "count": row,
        "present": [(names[source], count) for source, count in sorted(row.present.items())],
        "form": ExpectedGpusForm(initial={"count": row.fixed}),
    }
