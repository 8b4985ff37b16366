"""Sources on hubs, and their syncs."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max, QuerySet
from django.utils.translation import gettext as _

from common.actor import Actor
from hubs.errors import UnknownHubSource
from hubs.models import HubSource, HubSync
from hubs.selectors.transfers import shown
from models_registry.models import Model, Version


@dataclass(frozen=True, slots=True)
class HubSourceCard:
    """A source on a hub as lists show it."""

    source: HubSource
    last_sync: HubSync | None


def hub_sources(actor: Actor, model: Model | None = None) -> QuerySet[HubSource]:
    """The sources that the actor may see, or those of one model."""
    rows = HubSource.objects.for_actor(actor).live().select_related("model__team").order_by("pk")
    return rows if model is None else rows.filter(model=model)


def hub_source_cards(sources: Sequence[HubSource]) -> list[HubSourceCard]:
    """Return the cards of these sources in their order: one query for any number of them."""
    newest = HubSync.objects.filter(source__in=[source.pk for source in sources]).order_by()
    found = shown(HubSync.objects.all()).filter(
        pk__in=newest.values("source").annotate(newest=Max("pk")).values("newest")
    )
    last = {sync.source_id: sync for sync in found}
    return [HubSourceCard(source, last.get(source.pk)) for source in sources]


def hub_source_card(source: HubSource) -> HubSourceCard:
    return hub_source_cards([source])[0]


def hub_source_of(model: Model, pk: int) -> HubSource:
    """Raises UnknownHubSource."""
    found = HubSource.objects.live().filter(model=model, pk=pk).select_related("model__team").first()
    if found is None:
        raise UnknownHubSource(_("%(model)s has no such source.") % {"model": model})
    return found


def hub_sync_behind(version: Version) -> HubSync | None:
    """The sync that made the version, or last looked at its commit; None: it was not made by one."""
    if version.source.get("kind") != "hub":
        return None
    return shown(HubSync.objects.filter(version=version)).order_by("-pk").first()
