from collections.abc import Mapping
from typing import Any, ClassVar

from channels.db import database_sync_to_async
from django.utils.translation import gettext as _

from common.actor import Actor
from common.errors import Missing
from common.live.board import PUBLIC, Audience, Shard
from common.live.topics import Topic
from jobs.models import ServiceJob

SHOWN = ("state", "progress", "message", "attempts", "version", "status", "error")


class JobTopic(Topic):
    """Sends the state and the progress of a job, which its id names."""

    kind: ClassVar[str] = "job"

    def audience(self, actor: Actor, key: str) -> Audience:
        if not ServiceJob.objects.for_actor(actor).filter(name=key).exists():
            raise Missing(_("There is no such job, or you may not see it."))
        return frozenset({PUBLIC})

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        return {PUBLIC: await database_sync_to_async(self._values)(key)}

    def _values(self, key: str) -> dict[str, Any]:
        return ServiceJob.objects.filter(name=key).values(*SHOWN).first() or {}
