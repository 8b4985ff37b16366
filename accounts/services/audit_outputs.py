"""The outputs of the audit record as the settings name them: which there are is the operator's alone."""

from collections.abc import Sequence

from django.db.models import Q

from accounts.models import AuditOutput
from common import clock
from common.audit_places import is_local
from common.hosts import this_host


def take_over(places: Sequence[str]) -> None:
    """Replace this host's outputs: new ones begin with the first entry, those no longer named end."""
    ours = AuditOutput.objects.filter(Q(host=this_host()) | Q(host=""))
    ours.exclude(place__in=places).delete()
    for place in places:
        host = this_host() if is_local(place) else ""
        AuditOutput.objects.get_or_create(place=place, host=host, defaults={"next_at": clock.now()})
