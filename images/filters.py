"""Filters of the catalogue of images, over REST and on the page."""

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.filters import team
from common import filters
from common.filters import ListFilter
from images import selectors
from images.states import ImageState
from serving.engines.registry import ENGINES


class ImageFilter(ListFilter):
    rest_only = ("shared",)

    q = filters.search(
        "Words that must occur in name, engine, versions, repository, digest, description.",
        _("Name, engine, version, repository, digest"),
        selectors.mentioning,
    )
    engine = filters.choice(_("Engine"), "Engine.", [(engine, engine) for engine in ENGINES], "engine")
    state = filters.choice(
        _("State"),
        "State of the image.",
        ImageState.choices,
        lambda state: Q(deprecated_at__isnull=state == ImageState.CURRENT),
    )
    team = team("Owner; `null`: shared images.", "team", shared=_("The whole installation"))
    shared = filters.truth(_("Shared"), "Only shared images, or only those of teams.", "team__isnull")
