from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from clusters import selectors
from clusters.heartbeat_store import current_heartbeat_store
from clusters.live_values import values_of
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import Audience, Shard
from common.live.topics import Topic


class FleetTopic(Topic):
    """Busy rates of everything, and who is lost or stuck; touched when workers come, go or change state."""

    kind = "fleet"
    refresh_seconds = 1.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if key:
            raise Missing(_("There is one fleet only."))
        audience = selectors.audience_of(actor)
        if audience == frozenset():
            raise NotAllowed(_("You may not see the fleet: no team lets you read."))
        return audience

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        return values_of(await current_heartbeat_store().fleet())
