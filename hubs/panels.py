"""What the page of a version tells of hubs: the sync that made it, and its exports; see `panels`."""

from common.actor import Actor
from hubs.models import Export
from hubs.selectors import syncs
from hubs.selectors.transfers import transfers
from models_registry.models import Version
from models_registry.panels import PanelPlace, VersionPanel

EXPORTS_SHOWN = 5


def sync_panel(_actor: Actor, version: Version) -> VersionPanel | None:
    sync = syncs.hub_sync_behind(version)
    return VersionPanel(PanelPlace.SOURCE, "hubs/_sync_of_version.html", {"sync": sync}) if sync else None


def export_panel(actor: Actor, version: Version) -> VersionPanel | None:
    rows = transfers(Export, actor, version.model).filter(version=version)
    exports = list(rows[:EXPORTS_SHOWN])
    template = "hubs/_exports_of_version.html"
    return VersionPanel(PanelPlace.ASIDE, template, {"exports": exports}) if exports else None
