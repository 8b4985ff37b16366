from collections.abc import Mapping
from typing import Any, ClassVar

from channels.db import database_sync_to_async
from django.utils.translation import gettext as _

from clusters.selectors import audience_of
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import Audience, Shard
from common.live.topics import Topic
from gpu_health.health_now import live_values


class GpuHealthTopic(Topic):
    """Machines by state, open incidents and what holds them, whether healing acts; touched by each move."""

    kind: ClassVar[str] = "gpu-health"
    refresh_seconds: ClassVar[float | None] = 2.0
    min_gap_seconds: ClassVar[float] = 0.5

    def audience(self, actor: Actor, key: str) -> Audience:
        if key:
            raise Missing(_("There is one GPU health only."))
        audience = audience_of(actor)
        if audience == frozenset():
            raise NotAllowed(_("You may not see the fleet: no team lets you read."))
        return audience

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        values: Mapping[Shard, Mapping[str, Any]] = await database_sync_to_async(live_values)()
        return values
