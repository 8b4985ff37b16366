"""Aliases, and where they pointed when."""

from datetime import datetime

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext as _

from models_registry.errors import UnknownAlias
from models_registry.models import Alias, AliasMove, Model

_TOLD = ("name", "state", "digest", "model")


def aliases(model: Model) -> QuerySet[Alias]:
    """Return the aliases of a model. Of their versions only names and digests are read."""
    own = (field.name for field in Alias._meta.concrete_fields)
    rows = Alias.objects.filter(model=model).select_related("model", "version").order_by("name")
    return rows.only(*own, "model__name", "version__name", "version__digest", "version__model")


def alias_named(model: Model, name: str) -> Alias:
    """Raises UnknownAlias."""
    found = aliases(model).filter(name=name).first()
    if found is None:
        raise UnknownAlias(_("%(model)s has no alias '%(name)s'.") % {"model": model, "name": name[:63]})
    return found


def alias_history(model: Model, alias: str | None = None) -> QuerySet[AliasMove]:
    """Who pointed the model's aliases, or one of them, at what, when and why; newest first.

    Of the versions only names, states and digests are read.
    """
    rows = AliasMove.objects.filter(model=model)
    rows = rows if alias is None else rows.filter(alias=alias)
    own = (field.name for field in AliasMove._meta.concrete_fields)
    told = (f"{end}__{column}" for end in ("from_version", "to_version") for column in _TOLD)
    rows = rows.select_related("from_version", "to_version").only(*own, *told)
    return rows.order_by("-at", "-pk")


def in_force_at(at: datetime) -> Q:
    """Select the last move of each alias up to that moment."""
    earlier = AliasMove.objects.filter(model=OuterRef("model"), alias=OuterRef("alias"), at__lte=at)
    return Q(pk=Subquery(earlier.order_by("-at", "-pk").values("pk")[:1]))
