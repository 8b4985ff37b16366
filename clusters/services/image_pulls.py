"""Pulls of images by machines are kept, for as long as they say something."""

from collections.abc import Sequence
from datetime import timedelta

from django.utils import timezone

from clusters.backends.pulls import ObservedPull
from clusters.models import Cluster, ImagePull
from images.pulls import note_pulls

KEPT_FOR = timedelta(days=90)


def record_pulls(cluster: Cluster, pulls: Sequence[ObservedPull]) -> None:
    """Keep those of images that are named by digest. What was heard before is there already."""
    rows = [
        ImagePull(
            cluster_id=cluster.pk,
            machine=one.machine[:253],
            pod_uid=one.pod_uid[:64],
            reference=one.reference,
            digest=one.reference.rpartition("@")[2],
            seconds=one.seconds,
            waited_seconds=one.waited_seconds,
            size_bytes=one.size_bytes,
            at=one.at,
        )
        for one in pulls
        if "@sha256:" in one.reference and len(one.reference) <= MAX_LENGTH
    ]
    ImagePull.objects.bulk_create(rows, ignore_conflicts=True)
    note_pulls([(one.digest, one.at) for one in rows], cluster=cluster.name)
    ImagePull.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()


MAX_LENGTH = ImagePull._meta.get_field("reference").max_length or 0
