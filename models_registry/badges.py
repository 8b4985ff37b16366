"""Of versions, of what brings and takes them, and of the store."""

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
    "sync": {
        "resolving": Badge(_("Contacting hub"), "busy", "progress"),
        "fetching": Badge(_("Fetching"), "busy", "download"),
        "paused": Badge(_("Paused"), "warn", "player-pause"),
        "interrupted": Badge(_("Interrupted"), "warn", "plug-connected-x"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "current": Badge(_("Up to date"), "good", "equal"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "refused": Badge(_("Refused"), "bad", "shield-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
    "upload": {
        "open": Badge(_("Uploading"), "busy", "cloud-upload"),
        "importing": Badge(_("Importing"), "busy", "progress"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "refused": Badge(_("Refused"), "bad", "shield-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
        "expired": Badge(_("Expired"), "idle", "clock-off"),
    },
    "export": {
        "sending": Badge(_("Sending"), "busy", "upload"),
        "paused": Badge(_("Paused"), "warn", "player-pause"),
        "interrupted": Badge(_("Interrupted"), "warn", "plug-connected-x"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
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
    "signature": {
        "trusted": Badge(_("Trusted"), "good", "shield-check"),
        "unknown": Badge(_("Not trusted"), "warn", "shield-x"),
        "invalid": Badge(_("Broken"), "bad", "circle-x"),
        "unsigned": Badge(_("Unsigned"), "idle", "circle-dashed"),
    },
    "verdict_of_rule": {
        "stays": Badge(_("Kept"), "good", "lock"),
        "goes": Badge(_("Goes"), "warn", "trash"),
    },
    "change": {
        "same": Badge(_("Same"), "idle", "equal"),
        "changed": Badge(_("Changed"), "warn", "pencil"),
        "added": Badge(_("Added"), "good", "plus"),
        "removed": Badge(_("Removed"), "bad", "minus"),
    },
}
