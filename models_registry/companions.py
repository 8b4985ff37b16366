"""Versions whose files are laid out inside the directory of another: told by the app above that knows."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from models_registry.models import Version


@dataclass(frozen=True, eq=False)
class CompanionSource:
    """A kind of companions."""

    of: Callable[[int], Mapping[str, "Version"]]
    """From the id of a version to those that are laid out in it, by directory."""
    holders: Callable[[], Collection[int]]
    """Ids of the versions that have any, as long as their files are needed."""


_sources: list[CompanionSource] = []


def register_companions(source: CompanionSource) -> None:
    """Registering twice changes nothing."""
    if source not in _sources:
        _sources.append(source)


def companions(version_id: int) -> dict[str, "Version"]:
    return {place: one for source in _sources for place, one in source.of(version_id).items()}


def versions_with_companions() -> set[int]:
    return {pk for source in _sources for pk in source.holders()}
