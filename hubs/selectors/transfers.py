"""Syncs and exports, one kind at a time."""

from typing import Any, TypeVar

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.actor import Actor
from hubs.errors import UnknownTransfer
from hubs.models import HubTransfer, HubTransferQuerySet
from models_registry.models import Model
from models_registry.selectors.catalogue import without_json

T = TypeVar("T", bound=HubTransfer)


def shown(rows: HubTransferQuerySet[T]) -> QuerySet[T]:
    """Select the related rows that lists and pages show."""
    return without_json(rows.select_related(*rows.shown_with), "version__")


def transfers(kind: type[T], actor: Actor, model: Model | None = None) -> QuerySet[T]:
    """Return the transfers that the actor may see, or those of one model, newest first."""
    rows = _rows(kind).for_actor(actor)
    return shown(rows if model is None else _of(rows, model)).order_by("-pk")


def transfer_of(kind: type[T], model: Model, pk: int) -> T:
    """Raises UnknownTransfer."""
    found = shown(_of(_rows(kind), model)).filter(pk=pk).first()
    if found is None:
        raise UnknownTransfer(_("%(model)s has no such transfer.") % {"model": model})
    return found


def _rows(kind: type[T]) -> HubTransferQuerySet[T]:
    rows: HubTransferQuerySet[T] = kind._default_manager.all()  # type: ignore[assignment]
    return rows


def _of(rows: HubTransferQuerySet[T], model: Model) -> HubTransferQuerySet[T]:
    of: dict[str, Any] = {rows.team_path.removesuffix("__team"): model}
    return rows.filter(**of)
