from collections.abc import Mapping
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.utils.translation import gettext as _

from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import PUBLIC, Audience, Shard
from common.live.hub import current_hub
from common.live.topics import Topic
from controlplane.home.parts import parts_now

PATIENCE_SECONDS = 1.2


class HomeTopic(Topic):
    """The parts of the stack: says "look again" when one of them changes."""

    kind: ClassVar[str] = "home"
    refresh_seconds: ClassVar[float | None] = 2.0

    def __init__(self) -> None:
        self._fingerprint: tuple[object, ...] | None = None

    def audience(self, actor: Actor, key: str) -> Audience:
        if key:
            raise Missing(_("There is one Home only."))
        if actor.user_id is None:
            raise NotAllowed(_("Sign in to see it."))
        return frozenset({PUBLIC})

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        parts = await sync_to_async(parts_now, thread_sensitive=False)(patience_seconds=PATIENCE_SECONDS)
        if self._fingerprint not in (None, parts.fingerprint):
            current_hub().touched(self.kind)
        self._fingerprint = parts.fingerprint
        return {PUBLIC: {"parts.trouble": parts.in_trouble}}
