"""The manifest of the app images."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.states import Right
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge, Badges
from common.pages.search import SearchDestination, SearchSource
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from images import states
from images.search import find_images
from serving.engines.registry import ENGINES

BADGES: Mapping[str, Badges] = {
    "image": {
        "current": Badge(_("Current"), "good", "circle-check"),
        "deprecated": Badge(_("Deprecated"), "warn", "clock-off"),
    },
    "fit": {"fits": Badge(_("Fits"), "good", "circle-check")},
    "refresh": {
        "new": Badge(_("New"), "idle", "plus"),
        "moved": Badge(_("Tag moved"), "warn", "arrow-right"),
        "known": Badge(_("In the catalogue"), "good", "circle-check"),
        "failed": Badge(_("Not read"), "bad", "circle-x"),
    },
    "trial": {
        "works": Badge(_("Works"), "good", "circle-check"),
        "fails": Badge(_("Fails"), "bad", "circle-x"),
    },
}
DESTINATIONS = (
    SearchDestination(
        title=_("New image"),
        url="/images/+new/",
        icon="container",
        words="create add runtime",
        right=Right.FLEET_OPERATE,
        is_command=True,
    ),
    SearchDestination(
        title=_("Find a fitting image"),
        url="/images/+fit/",
        icon="puzzle",
        words="compatibility gpu cuda",
        is_command=True,
    ),
    SearchDestination(
        title=_("Read images from a registry"),
        url="/images/+refresh/",
        icon="refresh",
        words="presets vllm sglang triton tag digest",
        right=Right.FLEET_OPERATE,
        is_command=True,
    ),
    SearchDestination(title=_("Images"), url="/images/", icon="container", words="runtime"),
)
CHOICES = (
    ChoiceSet(states.Acceleration),
    ChoiceSet(tuple(ENGINES), schema="ImageEngine"),
    ChoiceSet(states.ImageState, badges="image", schema="ImageState"),
    ChoiceSet(states.TrialOutcome, badges="trial", schema="OutcomeEnum"),
)
MANIFEST = AppManifest(
    choices=CHOICES,
    subjects=(Subject("images.runtimeimage", _("Image"), "/images/{name}/", badges="image"),),
    badges=BADGES,
    nav=(
        NavItem(name=_("Images"), path="/images/", icon="container", rank=28, key="i", follows_changes=True),
    ),
    search=(SearchSource(_("Images"), find_images),),
    destinations=DESTINATIONS,
    nouns={"images": lambda count: ngettext("image", "images", count)},
)
