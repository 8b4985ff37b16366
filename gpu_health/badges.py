"""Of findings, their severity and what would be done."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "gpu_incident": {
        "proposed": Badge(_("Proposed"), "idle", "circle-dashed"),
        "quarantining": Badge(_("Quarantining"), "busy", "circle-off"),
        "quarantined": Badge(_("Quarantined"), "warn", "circle-off"),
        "draining": Badge(_("Draining"), "busy", "transfer"),
        "collecting": Badge(_("Collecting evidence"), "busy", "history"),
        "acting": Badge(_("Acting"), "busy", "refresh"),
        "verifying": Badge(_("Verifying"), "busy", "list-check"),
        "returning": Badge(_("Returning"), "busy", "arrow-back-up"),
        "watching": Badge(_("Watching"), "good", "eye"),
        "needs_person": Badge(_("Needs a person"), "ask", "user-question"),
        "closed": Badge(_("Closed"), "good", "circle-check"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
    "gpu_hold": {
        "approval": Badge(_("Waiting for approval"), "ask", "user-question"),
        "dry_run": Badge(_("Dry run"), "idle", "circle-dashed"),
        "held": Badge(_("Held"), "warn", "alert-triangle"),
    },
    "gpu_check": {
        "waiting": Badge(_("Waiting for an idle machine"), "idle", "clock"),
        "running": Badge(_("Running"), "busy", "list-check"),
        "passed": Badge(_("Passed"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "inconclusive": Badge(_("Inconclusive"), "warn", "alert-triangle"),
        "impossible": Badge(_("Not possible"), "warn", "alert-triangle"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
    "gpu_drill": {
        "preparing": Badge(_("Preparing"), "idle", "clock"),
        "playing": Badge(_("Playing"), "busy", "player-play"),
        "following": Badge(_("Following"), "busy", "eye"),
        "ending": Badge(_("Cleaning up"), "busy", "arrow-back-up"),
        "passed": Badge(_("Passed"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
    "gpu_check_outcome": {
        "passed": Badge(_("Passed"), "good", "circle-check"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "measured": Badge(_("Measured"), "idle", "circle-dashed"),
        "inconclusive": Badge(_("Inconclusive"), "warn", "alert-triangle"),
        "warned": Badge(_("Warned"), "warn", "alert-triangle"),
        "skipped": Badge(_("Skipped"), "idle", "circle-off"),
    },
    "gpu_machine": {
        "healthy": Badge(_("Healthy"), "good", "circle-check"),
        "suspect": Badge(_("Suspect"), "warn", "alert-triangle"),
        "out_of_service": Badge(_("Out of service"), "busy", "circle-off"),
        "needs_person": Badge(_("Needs a person"), "ask", "user-question"),
    },
    "gpu_lemon": {"lemon": Badge(_("Lemon"), "bad", "lemon")},
    "gpu_finding": {
        "open": Badge(_("Open"), "warn", "alert-triangle"),
        "cleared": Badge(_("Cleared"), "good", "circle-check"),
        "closed": Badge(_("Closed"), "idle", "circle-off"),
    },
    "gpu_severity": {
        "fatal": Badge(_("Fatal"), "bad", "circle-x"),
        "critical": Badge(_("Critical"), "bad", "alert-triangle"),
        "warning": Badge(_("Warning"), "warn", "alert-triangle"),
        "info": Badge(_("Info"), "idle", "circle-dashed"),
    },
    "gpu_outcome": {
        "act": Badge(_("Would act"), "bad", "alert-triangle"),
        "propose": Badge(_("Proposes"), "ask", "user-question"),
        "record": Badge(_("Records"), "idle", "history"),
        "alert": Badge(_("Alerts"), "warn", "alert-triangle"),
    },
}
