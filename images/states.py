"""States and kinds of images."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class Acceleration(TextChoices):
    """The way in which a cluster gets an image onto a machine sooner than by pulling all of it first."""

    NONE = "", _("Pulled as a whole")
    LAZY_STARGZ = "lazy-stargz", _("Lazy loading with stargz snapshotter")
    LAZY_NYDUS = "lazy-nydus", _("Lazy loading with Nydus")
    LAZY_SOCI = "lazy-soci", _("Lazy loading with SOCI")
    LAZY_GKE = "lazy-gke", _("Lazy loading with GKE image streaming")
    P2P_DRAGONFLY = "p2p-dragonfly", _("From machine to machine with Dragonfly")
    P2P_SPEGEL = "p2p-spegel", _("From machine to machine with Spegel")
    PREPULL = "prepull", _("Pulled onto every machine beforehand")
    NODE_IMAGE = "node-image", _("Part of the machines' own disk image")


class TrialOutcome(TextChoices):
    """The outcome of running an image."""

    WORKS = "works", _("Works")
    FAILS = "fails", _("Fails")


class ImageState(TextChoices):
    CURRENT = "current", _("Current")
    DEPRECATED = "deprecated", _("Deprecated")
