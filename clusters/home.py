"""The fleet on Home: how busy it is, and which machines are in trouble."""

from functools import cached_property
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters import selectors
from clusters.fleet import FleetSnapshot, NodeSnapshot
from common.actor import Actor
from common.pages.badges import badge_of
from common.sentences import listed

TROUBLE_SHOWN = 12


class FleetCard:
    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    @cached_property
    def fleet(self) -> FleetSnapshot:
        return selectors.fleet(self._actor)

    @cached_property
    def nodes_in_trouble(self) -> list[dict[str, Any]]:
        """Machines that cannot be reached, or with workers that are lost or stuck."""
        nodes = ((cluster, node) for cluster in self.fleet.clusters for node in cluster.nodes)
        found = (
            {"cluster": cluster.row.name, "node": node.row, "words": words}
            for cluster, node in nodes
            if (words := _trouble(node))
        )
        return list(islice(found, TROUBLE_SHOWN))


def _trouble(node: NodeSnapshot) -> str:
    words = []
    if node.row.state != "ready":
        words.append(str(badge_of("node", node.row.state).word).lower())
    if node.agent_silent_since:
        words.append(_("agent silent"))
    if node.load.lost:
        words.append(
            ngettext("%(count)s worker lost", "%(count)s workers lost", node.load.lost)
            % {"count": node.load.lost}
        )
    if node.load.stuck:
        words.append(
            ngettext("%(count)s worker stuck", "%(count)s workers stuck", node.load.stuck)
            % {"count": node.load.stuck}
        )
    return listed(words)
