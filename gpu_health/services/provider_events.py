"""What providers announce of machines, stored as readings of the machines that it is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.utils.translation import gettext as _

from accounts import selectors as accounts
from accounts.services.rights import require
from accounts.states import Right
from clusters.models import Node
from clusters.states import NodeState
from common import clock
from common.actor import Actor
from common.errors import Invalid
from gpu_health.services.readings import store_readings
from gpu_health.signals.envelopes import unwrapped
from gpu_health.signals.provider_events import NotAnEvent, events_of


@dataclass(frozen=True, slots=True)
class EventRefusal:
    event: str
    """As the provider calls it."""
    reason: str


@dataclass(frozen=True, slots=True)
class EventReceipt:
    stored: int
    known: int
    """That came before."""
    refused: Sequence[EventRefusal]


def accept_events(*, actor: Actor, document: object, machine: str = "", cluster: str = "") -> EventReceipt:
    """`machine`: of events that name none, as a machine's own list of them; `cluster`: where to look for it.

    Raises NotAllowed, Invalid when it is no event of a provider. An event of a machine that nobody knows, or
    that several have the name of, is refused; the others are stored.
    """
    require(actor, Right.FLEET_EVENTS)
    try:
        events = events_of(unwrapped(document))
    except NotAnEvent as error:
        raise Invalid(str(error)) from None
    stored, known, refused = 0, 0, []
    for event in events:
        named = event.machine or machine
        found = _machines(actor, named, cluster)
        if len(found) != 1:
            refused.append(EventRefusal(event.event_id, _why_not(found, named)))
            continue
        reading = event.reading(clock.now().timestamp(), node=found[0].name)
        if store_readings(found[0], [reading]):
            stored += 1
        else:
            known += 1
    return EventReceipt(stored, known, refused)


def _machines(actor: Actor, machine: str, cluster: str) -> list[Node]:
    """Machines that their provider, their cluster or people call so."""
    if not machine:
        return []
    rows = Node.objects.exclude(state=NodeState.GONE).select_related("cluster")
    if not accounts.may_everywhere(actor, Right.FLEET_EVENTS):
        rows = rows.filter(cluster__team__in=accounts.teams_where(actor, Right.FLEET_EVENTS))
    if cluster:
        rows = rows.filter(cluster__name=cluster)
    name = machine.rpartition("/")[2]
    by_name = Q(uid=machine) | Q(name=machine) | Q(provider_id=machine) | Q(provider_id__iendswith=f"/{name}")
    return list(rows.filter(by_name).distinct()[:3])


def _why_not(found: Sequence[Node], machine: str) -> str:
    if not machine:
        return _("It names no machine: add ?machine=NAME to the address.")
    if not found:
        return _("No machine that you may report of is called %(machine)s.") % {"machine": machine}
    return _("%(machine)s is a machine of several clusters: add ?cluster=NAME to the address.") % {
        "machine": machine
    }
