"""Badges of machines, deployments and workers."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "node": {
        "ready": Badge(_("Ready"), "good", "circle-check"),
        "not_ready": Badge(_("Not ready"), "bad", "plug-connected-x"),
        "unknown": Badge(_("Unknown"), "bad", "help-circle"),
        "gone": Badge(_("Gone"), "warn", "circle-off"),
    },
    "drain": {
        "cordoning": Badge(_("Cordoning"), "busy", "progress"),
        "replacing": Badge(_("Starting replacements"), "busy", "progress"),
        "turning_away": Badge(_("Turning requests away"), "busy", "progress"),
        "evicting": Badge(_("Evicting"), "busy", "droplet-half"),
        "drained": Badge(_("Drained"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "cancelling": Badge(_("Cancelling"), "warn", "progress"),
        "cancelled": Badge(_("Cancelled"), "idle", "player-stop"),
    },
    "fate": {
        "evicted": Badge(_("To be evicted"), "busy", "droplet-half"),
        "waited_for": Badge(_("May finish"), "warn", "progress"),
        "leaving": Badge(_("Leaving"), "busy", "progress"),
        "left": Badge(_("Stays"), "idle", "player-stop"),
        "stops": Badge(_("Stops the drain"), "bad", "circle-x"),
        "gone": Badge(_("Gone"), "good", "circle-check"),
    },
    "cluster": {
        "checking": Badge(_("Checking"), "busy", "progress"),
        "ready": Badge(_("Ready"), "good", "circle-check"),
        "warning": Badge(_("Ready, with warnings"), "warn", "alert-triangle"),
        "not_ready": Badge(_("Not ready"), "bad", "circle-x"),
        "unavailable": Badge(_("Unavailable"), "bad", "plug-connected-x"),
        "removing": Badge(_("Removing"), "warn", "droplet-half"),
    },
    "check": {
        "passed": Badge(_("Passed"), "good", "circle-check"),
        "warning": Badge(_("Warning"), "warn", "alert-triangle"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "left_out": Badge(_("Left out"), "idle", "circle-minus"),
    },
    "alert": {
        "lost": Badge(_("Lost"), "bad", "plug-connected-x"),
        "stuck": Badge(_("Stuck"), "bad", "alert-triangle"),
        "saturated": Badge(_("Saturated"), "warn", "gauge"),
    },
    "deployment": {
        "starting": Badge(_("Starting"), "busy", "progress"),
        "ready": Badge(_("Ready"), "good", "circle-check"),
        "degraded": Badge(_("Degraded"), "warn", "alert-triangle"),
        "failing": Badge(_("Failing"), "bad", "circle-x"),
        "removing": Badge(_("Stopping"), "warn", "droplet-half"),
        "removed": Badge(_("Stopped"), "idle", "player-stop"),
    },
    "worker": {
        "starting": Badge(_("Starting"), "busy", "progress"),
        "ready": Badge(_("Ready"), "good", "circle-check"),
        "draining": Badge(_("Draining"), "warn", "droplet-half"),
        "lost": Badge(_("Lost"), "bad", "plug-connected-x"),
        "stuck": Badge(_("Stuck"), "bad", "alert-triangle"),
        "saturated": Badge(_("Saturated"), "warn", "gauge"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "stopped": Badge(_("Stopped"), "idle", "player-stop"),
    },
}
