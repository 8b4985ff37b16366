"""What else happened to a version: told by the apps above, which the registry does not know."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.actor import Actor
from models_registry.models import Version


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An entry of a version's history, shown beside the moves of its own state."""

    at: datetime
    badge: tuple[str, str]
    """Name and state, as `common.pages.badges` knows them."""
    title: str
    url: str
    by: str
    text: str = ""


HistoryCheck = Callable[[Actor, Version, int], Sequence[HistoryEntry]]
"""The newest entries of a version, at most so many, of those that the actor may know of."""

_checks: list[HistoryCheck] = []


def register_history(check: HistoryCheck) -> None:
    """Show its answer on the version's page. Registering twice changes nothing."""
    if check not in _checks:
        _checks.append(check)


def history(actor: Actor, version: Version, *, limit: int) -> list[HistoryEntry]:
    """Newest first."""
    entries = [entry for check in _checks for entry in check(actor, version, limit)]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)[:limit]
