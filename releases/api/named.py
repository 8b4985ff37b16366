"""What a request names, as this actor sees it."""

from django.utils.translation import gettext as _

from accounts import selectors as accounts
from accounts.models import Team
from accounts.services.rights import require
from accounts.states import Right
from clusters.models import Cluster
from common.api.views import Endpoint
from common.errors import Invalid, Missing
from images import selectors as catalogue
from images.models import RuntimeImage
from models_registry.models import Model, Version
from models_registry.selectors import versions


def team_named(view: Endpoint, name: str | None, right: Right) -> Team:
    """The team of that name; without one the only team in which the actor has the right."""
    mine = accounts.teams_where(view.actor, right)
    if name is None:
        found = list(mine.order_by("name")[:20])
        if not found:
            require(view.actor, right)
        if len(found) != 1:
            named = ", ".join(team.name for team in found)
            raise Invalid(fields={"team": [_("Say which team will own it: %(named)s.") % {"named": named}]})
        return found[0]
    return accounts.team_named(view.actor, name)


def model_named(view: Endpoint, name: str) -> Model:
    model = Model.objects.for_actor(view.actor).filter(name=name).first()
    if model is None:
        raise Invalid(fields={"model": [_("There is no such model, or none that you may see.")]})
    return model


def version_named(view: Endpoint, model: Model, name: str) -> Version:
    return version_labelled(view, f"{model.name}:{name}")


def version_labelled(view: Endpoint, label: str) -> Version:
    """The version of a MODEL:VERSION or MODEL:ALIAS."""
    try:
        return versions.resolve(view.actor, label)
    except Missing as missing:
        raise Invalid(fields={"version": [str(missing)]}) from None


def cluster_named(view: Endpoint, name: str) -> Cluster:
    cluster = Cluster.objects.for_actor(view.actor).filter(name=name).first()
    if cluster is None:
        raise Invalid(fields={"cluster": [_("There is no such cluster, or none that you may see.")]})
    return cluster


def image_named(view: Endpoint, name: str | None) -> RuntimeImage | None:
    if not name:
        return None
    try:
        return catalogue.image_named(view.actor, name)
    except Missing as missing:
        raise Invalid(fields={"image": [str(missing)]}) from None
