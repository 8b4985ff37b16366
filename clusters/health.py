"""Whether every cluster takes orders: at the last survey the supervisor of a machine's workers, or an API
server, answered."""

from django.utils.text import format_lazy
from django.utils.translation import ngettext_lazy

from clusters.models import Cluster
from common.health import Unhealthy, Words


def clusters_health() -> Words:
    """Counts alone: whose clusters they are is not for everybody who sees Home. Raises Unhealthy."""
    kept = Cluster.objects.filter(removed_at=None, removal_asked_at=None)
    problems = list(kept.values_list("problem", flat=True))
    if troubled := sum(1 for problem in problems if problem):
        raise Unhealthy(
            format_lazy(
                ngettext_lazy(
                    "{number} cluster is unavailable; its page says why",
                    "{number} clusters are unavailable; their pages say why",
                    troubled,
                ),
                number=troubled,
            )
        )
    return format_lazy(
        ngettext_lazy("{number} cluster is available", "{number} clusters are available", len(problems)),
        number=len(problems),
    )
