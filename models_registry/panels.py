"""What else the page of a version shows: told by the apps above, which the registry does not know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from common.actor import Actor
from models_registry.models import Version


class PanelPlace(Enum):
    SOURCE = "source"
    """Rows of the list of facts about its source."""
    ASIDE = "aside"
    """Panels of their own."""


@dataclass(frozen=True, slots=True)
class VersionPanel:
    """A template and the context of its own that it finds as `panel.context`."""

    place: PanelPlace
    template: str
    context: Mapping[str, Any]


PanelOf = Callable[[Actor, Version], VersionPanel | None]
"""None: there is nothing to show of that version."""

_registered: list[PanelOf] = []


def register_panel(panel_of: PanelOf) -> None:
    """Show its answer on the version's page. Registering twice changes nothing."""
    if panel_of not in _registered:
        _registered.append(panel_of)


def panels(actor: Actor, version: Version) -> dict[str, list[VersionPanel]]:
    """Return panels by the value of their place, in the order of their registration."""
    found = [panel for panel_of in _registered if (panel := panel_of(actor, version)) is not None]
    return {place.value: [panel for panel in found if panel.place == place] for place in PanelPlace}
