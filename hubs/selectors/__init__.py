"""Named reads of sources, syncs and exports."""

from hubs.selectors.exports import export_of, exports
from hubs.selectors.syncs import (
    HubSourceCard,
    hub_source_card,
    hub_source_cards,
    hub_source_of,
    hub_sources,
    hub_sync_behind,
    hub_sync_of,
    hub_syncs,
)

__all__ = [
    "HubSourceCard",
    "export_of",
    "exports",
    "hub_source_card",
    "hub_source_cards",
    "hub_source_of",
    "hub_sources",
    "hub_sync_behind",
    "hub_sync_of",
    "hub_syncs",
]
