import time
from collections.abc import Mapping
from typing import Any, ClassVar

from channels.db import database_sync_to_async
from django.utils.translation import gettext as _

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live.board import PUBLIC, Audience, Shard
from common.live.hub import current_hub
from common.live.topics import Topic
from releases.condition import ServiceCondition
from releases.conditions import conditions
from releases.models import Release, Service
from releases.pages.values import release_values, service_values
from releases.sampling import sampler
from releases.selectors.services import conditions_now, release_of

CONDITION_SECONDS = 3.0
ALL = frozenset({PUBLIC})
"""Who may follow one of these may see all that it shows."""


class ReleaseTopic(Topic):
    """Sends the weights of a release, the judge's evidence, and what both sides answer."""

    kind: ClassVar[str] = "release"
    refresh_seconds: ClassVar[float | None] = 1.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if not key.isdigit() or not Release.objects.for_actor(actor).filter(pk=int(key)).exists():
            raise Missing(_("There is no such release, or you may not see it."))
        return ALL

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        return {PUBLIC: await database_sync_to_async(self._values)(int(key))}

    def _values(self, pk: int) -> dict[str, Any]:
        release = Release.objects.select_related("service").get(pk=pk)
        return release_values(release, sampler.look(release.service.name) if release.in_motion else None)


class ServiceTopic(Topic):
    """Sends what both sides of a service answer, and "look again" when the service's condition changes."""

    kind: ClassVar[str] = "service"
    refresh_seconds: ClassVar[float | None] = 1.0

    def __init__(self) -> None:
        self._looked: dict[str, tuple[float, ServiceCondition]] = {}

    def audience(self, actor: Actor, key: str) -> Audience:
        if not key.isdigit() or not Service.objects.for_actor(actor).filter(pk=int(key)).exists():
            raise Missing(_("There is no such service, or you may not see it."))
        return ALL

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        values, condition = await database_sync_to_async(self._values)(key)
        if condition is not None:
            before = self._looked.get(key)
            self._looked[key] = (time.monotonic(), condition)
            if before is not None and before[1] != condition:
                current_hub().touched(f"{self.kind}:{key}")
        return {PUBLIC: values}

    def _values(self, key: str) -> tuple[dict[str, Any], ServiceCondition | None]:
        """The condition only now and then: it costs more than the figures, and moves less."""
        service = Service.objects.get(pk=int(key))
        release = release_of(service)
        values = service_values(service, release, sampler.look(service.name))
        looked_at = self._looked[key][0] if key in self._looked else float("-inf")
        if time.monotonic() - looked_at < CONDITION_SECONDS:
            return values, None
        moving = {service.pk: release} if release else {}
        return values, conditions([service], moving)[service.pk]


class ReleasesTopic(Topic):
    """All releases and services: says only "look again", also when the condition of a service changes."""

    kind: ClassVar[str] = "releases"
    min_gap_seconds: ClassVar[float] = 1.0
    refresh_seconds: ClassVar[float | None] = CONDITION_SECONDS

    def __init__(self) -> None:
        self._conditions: Mapping[str, ServiceCondition] | None = None

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        now = await database_sync_to_async(conditions_now)()
        if self._conditions not in (None, now):
            current_hub().touched(self.kind)
        self._conditions = now
        return {PUBLIC: {}}

    def audience(self, actor: Actor, key: str) -> Audience:
        if key:
            raise Missing(_("There is one list of releases only."))
        if not may(actor, Right.READ):
            raise NotAllowed(_("You may not see releases: no team lets you read."))
        return ALL
