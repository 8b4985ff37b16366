"""Uses that keep a cluster from being removed: its deployments, and what the apps above send there."""

from collections.abc import Callable, Sequence

from django.utils.translation import gettext as _

from clusters.models import Cluster, Deployment
from clusters.states import DeploymentState

UseCheck = Callable[[Cluster], Sequence[str]]
"""The present uses of a cluster, in words."""

_checks: list[UseCheck] = []


def register_cluster_uses(check: UseCheck) -> None:
    """Ask it before a cluster is removed. Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


def cluster_uses(cluster: Cluster) -> list[str]:
    """Everything that runs there or is about to, each in words; none when it may be removed."""
    found = Deployment.objects.filter(cluster=cluster).exclude(state=DeploymentState.REMOVED)
    names = found.order_by("name").values_list("name", flat=True)
    deployments = [_("deployment %(name)s") % {"name": name} for name in names]
    return [*deployments, *(words for check in _checks for words in check(cluster))]
