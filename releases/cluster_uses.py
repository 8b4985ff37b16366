"""What of releases keeps a cluster from being removed."""

from django.utils.translation import gettext as _

from clusters.models import Cluster
from releases.models import Release
from releases.states import IN_MOTION


def releases_going_to(cluster: Cluster) -> list[str]:
    """Return the releases in motion that bring workers there, in words."""
    rows = Release.objects.filter(state__in=IN_MOTION, service__cluster=cluster)
    found = rows.order_by("pk").values_list("pk", "service__name")
    return [_("release %(id)s of %(service)s") % {"id": pk, "service": name} for pk, name in found]
