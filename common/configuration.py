"""Kinds of objects that teams keep as files, and the REST routes by which `configuration` makes them so.

An app says it in its manifest: `ConfigurationKind("plan", routes="plan", lookup="plan")`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Exported = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ConfigurationKind:
    name: str
    """`kind` in a file."""
    routes: str
    """Base name of its REST routes; `plan` has `plan-list` and `plan-detail`."""
    lookup: str
    """Keyword of the detail route."""
    named_by: str = "name"
    """Field that identifies the object."""
    within_team: bool = True
    """Names are unique within a team; otherwise in the installation."""
    parameters: tuple[str, ...] = ()
    """Fields of a document that the query of the detail route repeats."""
    found_in_list: bool = False
    """The detail route takes the `id` that the list tells."""
    takes_reason: bool = True
    """`reason` in a body is why it is changed, and no field of the object."""
    emptied_by: Mapping[str, Any] | None = None
    """Body that takes the place of a deletion, where the route cannot delete."""
    written: Exported | None = None
    """Return a row as files write it, where the answer tells more that changes by itself."""
    exported: Exported | None = None
    """Return the fields that the creation needs and the answer names otherwise."""
    is_exported: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether a row of the list belongs into files."""


_kinds: dict[str, ConfigurationKind] = {}


def offer(kind: ConfigurationKind) -> None:
    """Raises ValueError for a second one of a name."""
    if _kinds.setdefault(kind.name, kind) is not kind:
        raise ValueError(f"The kind {kind.name} of configuration is declared already.")


def kinds() -> Mapping[str, ConfigurationKind]:
    """Return the kinds by name, those of lower apps first: later ones refer to them."""
    return _kinds
