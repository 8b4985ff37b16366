"""Of machines, deployments and workers."""

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
