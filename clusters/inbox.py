"""Clusters that wait for a person."""

from collections.abc import Iterator

from django.utils.translation import gettext as _

from accounts.states import Right
from clusters import agent_contacts
from clusters.models import Cluster
from common import clock
from common.actor import Actor
from common.pages.inbox import InboxEntry


def silent_relays(actor: Actor) -> Iterator[InboxEntry]:
    """Clusters whose workers nobody hears; they may serve."""
    mine = Cluster.objects.for_actor(actor, Right.FLEET_OPERATE)
    for row in agent_contacts.silent_relays(mine, now=clock.now()):
        yield InboxEntry(
            badge=("part", "down"),
            title=_("The relay of %(cluster)s is silent") % {"cluster": row.name},
            url=f"/fleet/clusters/{row.name}/",
            since=row.relay_silent_since,
            why=_(
                "No busy figures arrive for its workers. Workers that the cluster reports as ready "
                "keep serving."
            ),
        )
