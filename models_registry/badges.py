"""Of versions, uploads, and what stands beside them."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "version": {
        "importing": Badge(_("Importing"), "busy", "download"),
        "ready": Badge(_("Ready"), "good", "circle-check"),
        "archived": Badge(_("Archived"), "idle", "archive"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "refused": Badge(_("Refused"), "bad", "shield-x"),
        "deleted": Badge(_("Deleted"), "idle", "trash"),
    },
    "upload": {
        "open": Badge(_("Uploading"), "busy", "cloud-upload"),
        "importing": Badge(_("Importing"), "busy", "progress"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "refused": Badge(_("Refused"), "bad", "shield-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
        "expired": Badge(_("Expired"), "idle", "clock-off"),
    },
    "verdict_of_rule": {
        "stays": Badge(_("Kept"), "good", "lock"),
        "goes": Badge(_("To be deleted"), "warn", "trash"),
    },
    "change": {
        "same": Badge(_("Same"), "idle", "equal"),
        "changed": Badge(_("Changed"), "warn", "pencil"),
        "added": Badge(_("Added"), "good", "plus"),
        "removed": Badge(_("Removed"), "bad", "minus"),
    },
}
