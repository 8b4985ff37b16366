"""Badges of runs over the store, and of their findings."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "run": {
        "running": Badge(_("Running"), "busy", "progress"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "stopped": Badge(_("Stopped"), "idle", "circle-off"),
    },
    "finding": {
        "found": Badge(_("Found"), "warn", "alert-triangle"),
        "aside": Badge(_("Being repaired"), "busy", "bandage"),
        "lost": Badge(_("Lost"), "bad", "circle-x"),
        "repaired": Badge(_("Repaired"), "good", "circle-check"),
        "unneeded": Badge(_("Not needed"), "idle", "circle-off"),
    },
}
