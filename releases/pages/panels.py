"""Panels of the apps above on a service's page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from releases.models import Service


@dataclass(frozen=True, slots=True)
class ServicePanel:
    template: str
    """Gets what was read as `panel`, beside `service` and `shown` of the page."""
    read: Callable[[Service], Any]


_panels: list[ServicePanel] = []


def register_service_panel(panel: ServicePanel) -> None:
    """Registering twice changes nothing."""
    if panel not in _panels:
        _panels.append(panel)


def service_panels(service: Service) -> Sequence[tuple[str, Any]]:
    """Each with its template."""
    return [(one.template, one.read(service)) for one in _panels]
