"""Machines as requests name them."""

from django.http import Http404
from django.utils.translation import gettext as _

from clusters.models import Node
from clusters.states import NodeState
from common.actor import Actor
from common.errors import Invalid


def machine_of(actor: Actor, name: str, cluster: str) -> Node:
    """Raises Http404, Invalid where several clusters have a machine of the name and none is said."""
    rows = Node.objects.for_actor(actor).exclude(state=NodeState.GONE).filter(name=name)
    found = list((rows.filter(cluster__name=cluster) if cluster else rows).select_related("cluster")[:2])
    if not found:
        raise Http404
    if len(found) > 1:
        several = _("Several clusters have a machine of this name: say which.")
        raise Invalid(fields={"cluster": [several]})
    return found[0]
