"""Images of the catalogue in which families of recipes run as Jobs of a cluster; a setting names them."""

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.models import Team
from images.models import RuntimeImage


def image_of(family: str, team: Team) -> str:
    """Return the image by digest; empty: the cluster's own for jobs, which is also right for no family."""
    name = settings.SLIPWAY_OPTIMIZATION_IMAGES.get(family, "")
    rows = RuntimeImage.objects.filter(Q(team=None) | Q(team=team), name=name, deprecated_at=None)
    found = rows.first()
    return found.reference if found else ""


def image_refusal(family: str, team: Team) -> str:
    """Return why a family cannot run in clusters; empty: it can."""
    if not family or image_of(family, team):
        return ""
    return _(
        "Recipes of %(family)s run in an image of their own there. Build it (deploy/worker), add it to the "
        "catalogue, and name it in SLIPWAY_OPTIMIZATION_IMAGES."
    ) % {"family": family}
