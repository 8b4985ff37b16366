"""A cluster refuses what it allowed before: its checks are made anew, and rows say what they wait for."""

from datetime import timedelta

from django.utils import timezone

from clusters.backends.base import BackendError, ClusterRightsMissing
from clusters.models import Cluster
from common.reconcile import kernel

RECHECKED_AFTER = timedelta(seconds=30)


def recheck_rights(cluster: Cluster) -> None:
    """The cluster has refused what it allowed before: its checks are due at once, but for those just made."""
    now = timezone.now()
    if cluster.is_check_due or (cluster.checked_at and now - cluster.checked_at < RECHECKED_AFTER):
        return
    for row in Cluster.objects.present().filter(pk=cluster.pk, removal_asked_at=None, stuck_at=None):
        kernel.wake(row, check_asked_at=now)


def why_unanswered(cluster: Cluster, error: BackendError) -> str:
    """Return the words for what cannot be done at the moment; rights that are missing are looked for."""
    if isinstance(error, ClusterRightsMissing):
        recheck_rights(cluster)
        return f"{cluster.name}: {error}"
    return f"The cluster {cluster.name} does not answer: {error}"  # untranslated
