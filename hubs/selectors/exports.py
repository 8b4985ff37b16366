"""Exports of versions."""

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.actor import Actor
from hubs.errors import UnknownExport
from hubs.models import Export
from models_registry.models import Model
from models_registry.selectors.catalogue import without_json


def exports(actor: Actor, model: Model | None = None) -> QuerySet[Export]:
    """The exports that the actor may see, or those of one model, newest first."""
    rows = _with_version(Export.objects.for_actor(actor)).order_by("-pk")
    return rows if model is None else rows.filter(version__model=model)


def export_of(model: Model, pk: int) -> Export:
    """Raises UnknownExport."""
    found = _with_version(Export.objects.filter(version__model=model, pk=pk)).first()
    if found is None:
        raise UnknownExport(_("%(model)s has no such export.") % {"model": model})
    return found


def _with_version(rows: QuerySet[Export]) -> QuerySet[Export]:
    return without_json(rows.select_related("version__model__team"), "version__")
