from collections.abc import Mapping
from typing import Any, ClassVar

from channels.db import database_sync_to_async
from django.utils.translation import gettext as _

from accounts.selectors import may
from accounts.states import Right
from common.actor import Actor
from common.errors import Missing, NotAllowed
from common.live import PUBLIC, Audience, Shard, Topic
from releases import selectors
from releases.models import Release, Service
from releases.pages.values import release_values, service_values
from releases.sampling import sampler

ALL = frozenset({PUBLIC})
"""Who may follow one of these may see all that it shows."""


class ReleaseTopic(Topic):
    """One release: its weights, the judge's evidence, and what both sides answer."""

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
    """One service, by its id: what both of its sides answer."""

    kind: ClassVar[str] = "service"
    refresh_seconds: ClassVar[float | None] = 1.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if not key.isdigit() or not Service.objects.for_actor(actor).filter(pk=int(key)).exists():
            raise Missing(_("There is no such service, or you may not see it."))
        return ALL

    async def read(self, key: str) -> Mapping[Shard, Mapping[str, Any]]:
        return {PUBLIC: await database_sync_to_async(self._values)(int(key))}

    def _values(self, pk: int) -> dict[str, Any]:
        service = Service.objects.get(pk=pk)
        return service_values(service, selectors.release_of(service), sampler.look(service.name))


class ReleasesTopic(Topic):
    """All releases and services: says only "look again"."""

    kind: ClassVar[str] = "releases"
    min_gap_seconds: ClassVar[float] = 1.0

    def audience(self, actor: Actor, key: str) -> Audience:
        if key:
            raise Missing(_("There is one list of releases only."))
        if not may(actor, Right.READ):
            raise NotAllowed(_("You may not see releases: no team lets you read."))
        return ALL
