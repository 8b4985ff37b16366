"""Of releases, their steps and verdicts, and of services."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "release": {
        "pending": Badge(_("Pending"), "idle", "circle-dashed"),
        "running": Badge(_("Running"), "busy", "progress"),
        "waiting_approval": Badge(_("Waiting for approval"), "ask", "user-question"),
        "paused": Badge(_("Paused"), "warn", "player-pause"),
        "promoted": Badge(_("Promoted"), "good", "circle-check"),
        "superseded": Badge(_("Superseded"), "idle", "history"),
        "undone": Badge(_("Promoted, then rolled back"), "warn", "rotate-2"),
        "rolling_back": Badge(_("Rolling back"), "warn", "arrow-back-up"),
        "rolled_back": Badge(_("Rolled back"), "bad", "arrow-back-up"),
        "rejected": Badge(_("Rejected"), "bad", "thumb-down"),
        "aborted": Badge(_("Aborted"), "idle", "circle-off"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "stuck": Badge(_("Stuck"), "bad", "alert-triangle"),
    },
    "step": {
        "pending": Badge(_("Pending"), "idle", "circle-dashed"),
        "running": Badge(_("Running"), "busy", "progress"),
        "waiting": Badge(_("Waiting"), "ask", "user-question"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "aborted": Badge(_("Aborted"), "warn", "circle-off"),
        "rejected": Badge(_("Rejected"), "bad", "thumb-down"),
        "not_run": Badge(_("Not run"), "idle", "circle-minus"),
        "paused": Badge(_("Paused"), "warn", "player-pause"),
        "stuck": Badge(_("Stuck"), "bad", "alert-triangle"),
    },
    "pod_patch": {
        "proposed": Badge(_("Proposed"), "ask", "user-question"),
        "approved": Badge(_("In effect"), "good", "circle-check"),
        "replaced": Badge(_("Replaced"), "idle", "history"),
        "rejected": Badge(_("Rejected"), "bad", "thumb-down"),
        "withdrawn": Badge(_("Withdrawn"), "idle", "circle-off"),
    },
    "service": {
        "starting": Badge(_("Starting"), "busy", "progress"),
        "serving": Badge(_("Serving"), "good", "circle-check"),
        "releasing": Badge(_("Releasing"), "busy", "rocket"),
        "degraded": Badge(_("Degraded"), "warn", "alert-triangle"),
        "failing": Badge(_("Failing"), "bad", "circle-x"),
        "down": Badge(_("Down"), "bad", "circle-x"),
    },
    "verdict": {
        "none": Badge(_("No analysis yet"), "idle", "circle-dashed"),
        "never": Badge(_("No analysis"), "idle", "circle-minus"),
        "insufficient": Badge(_("Inconclusive"), "warn", "scale"),
        "promote": Badge(_("Passed"), "good", "rosette-discount-check"),
        "roll_back": Badge(_("Failed"), "bad", "arrow-back-up"),
    },
}
