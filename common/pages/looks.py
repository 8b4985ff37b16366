"""Word, tone and icon of every state: never colour alone.

One table for the whole console, so that the same thing looks the same on every screen. Tones:
`idle` nothing happens, `busy` at work, `ask` a person must act, `good`, `warn`, `bad`.
"""

from dataclasses import dataclass
from typing import Literal

Tone = Literal["idle", "busy", "ask", "good", "warn", "bad"]
TONES: tuple[Tone, ...] = ("idle", "busy", "ask", "good", "warn", "bad")


@dataclass(frozen=True, slots=True)
class Look:
    word: str
    tone: Tone
    icon: str


LOOKS: dict[str, dict[str, Look]] = {
    "release": {
        "pending": Look("Pending", "idle", "circle-dashed"),
        "running": Look("Running", "busy", "progress"),
        "waiting_approval": Look("Waiting for approval", "ask", "user-question"),
        "paused": Look("Paused", "warn", "player-pause"),
        "promoted": Look("Promoted", "good", "circle-check"),
        "superseded": Look("Superseded", "idle", "history"),
        "undone": Look("Rolled back", "warn", "arrow-back-up"),
        "rolling_back": Look("Rolling back", "warn", "arrow-back-up"),
        "rolled_back": Look("Rolled back", "bad", "arrow-back-up"),
        "rejected": Look("Rejected", "bad", "thumb-down"),
        "aborted": Look("Aborted", "idle", "circle-off"),
        "failed": Look("Failed", "bad", "circle-x"),
        "stuck": Look("Stuck", "bad", "alert-triangle"),
    },
    "version": {
        "importing": Look("Importing", "busy", "download"),
        "ready": Look("Ready", "good", "circle-check"),
        "archived": Look("Archived", "idle", "archive"),
        "failed": Look("Failed", "bad", "circle-x"),
        "refused": Look("Refused", "bad", "shield-x"),
        "deleted": Look("Deleted", "idle", "trash"),
    },
    "sync": {
        "resolving": Look("Asking the hub", "busy", "progress"),
        "fetching": Look("Fetching", "busy", "download"),
        "paused": Look("Paused", "warn", "player-pause"),
        "interrupted": Look("Interrupted", "warn", "plug-connected-x"),
        "done": Look("Done", "good", "circle-check"),
        "current": Look("Up to date", "good", "equal"),
        "failed": Look("Failed", "bad", "circle-x"),
        "refused": Look("Refused", "bad", "shield-x"),
        "cancelled": Look("Cancelled", "idle", "circle-off"),
    },
    "upload": {
        "open": Look("Uploading", "busy", "cloud-upload"),
        "importing": Look("Importing", "busy", "progress"),
        "done": Look("Done", "good", "circle-check"),
        "refused": Look("Refused", "bad", "shield-x"),
        "cancelled": Look("Cancelled", "idle", "circle-off"),
        "expired": Look("Expired", "idle", "clock-off"),
    },
    "export": {
        "sending": Look("Sending", "busy", "upload"),
        "paused": Look("Paused", "warn", "player-pause"),
        "interrupted": Look("Interrupted", "warn", "plug-connected-x"),
        "done": Look("Done", "good", "circle-check"),
        "failed": Look("Failed", "bad", "circle-x"),
        "cancelled": Look("Cancelled", "idle", "circle-off"),
    },
    "run": {
        "running": Look("Running", "busy", "progress"),
        "done": Look("Done", "good", "circle-check"),
        "stopped": Look("Stopped", "idle", "circle-off"),
    },
    "finding": {
        "found": Look("Found", "warn", "alert-triangle"),
        "aside": Look("Being repaired", "busy", "bandage"),
        "lost": Look("Lost", "bad", "circle-x"),
        "repaired": Look("Repaired", "good", "circle-check"),
        "unneeded": Look("Not needed", "idle", "circle-off"),
    },
    "signature": {
        "trusted": Look("Trusted", "good", "shield-check"),
        "unknown": Look("Not trusted", "warn", "shield-x"),
        "invalid": Look("Broken", "bad", "circle-x"),
        "unsigned": Look("Unsigned", "idle", "circle-dashed"),
    },
    "verdict_of_rule": {
        "stays": Look("Stays", "good", "lock"),
        "goes": Look("Goes", "warn", "trash"),
    },
    "change": {
        "same": Look("Same", "idle", "equal"),
        "changed": Look("Changed", "warn", "pencil"),
        "added": Look("Added", "good", "plus"),
        "removed": Look("Removed", "bad", "minus"),
    },
    "node": {
        "ready": Look("Ready", "good", "circle-check"),
        "unreachable": Look("Unreachable", "bad", "plug-connected-x"),
    },
    "alert": {
        "lost": Look("Lost", "bad", "plug-connected-x"),
        "stuck": Look("Stuck", "bad", "alert-triangle"),
    },
    "step": {
        "pending": Look("Pending", "idle", "circle-dashed"),
        "running": Look("Running", "busy", "progress"),
        "waiting": Look("Waiting", "ask", "user-question"),
        "done": Look("Done", "good", "circle-check"),
        "failed": Look("Failed", "bad", "circle-x"),
        "aborted": Look("Aborted", "warn", "circle-off"),
        "rejected": Look("Rejected", "bad", "thumb-down"),
        "not_run": Look("Not run", "idle", "circle-minus"),
        "paused": Look("Paused", "warn", "player-pause"),
        "stuck": Look("Stuck", "bad", "alert-triangle"),
    },
    "service": {
        "starting": Look("Starting", "busy", "progress"),
        "serving": Look("Serving", "good", "circle-check"),
        "releasing": Look("Releasing", "busy", "rocket"),
        "down": Look("Down", "bad", "circle-x"),
    },
    "verdict": {
        "none": Look("No analysis yet", "idle", "circle-dashed"),
        "never": Look("No analysis", "idle", "circle-minus"),
        "insufficient": Look("Inconclusive", "warn", "scale"),
        "promote": Look("Passed", "good", "rosette-discount-check"),
        "roll_back": Look("Failed", "bad", "arrow-back-up"),
    },
    "deployment": {
        "starting": Look("Starting", "busy", "progress"),
        "ready": Look("Ready", "good", "circle-check"),
        "degraded": Look("Degraded", "warn", "alert-triangle"),
        "failing": Look("Failing", "bad", "circle-x"),
        "removing": Look("Stopping", "warn", "droplet-half"),
        "removed": Look("Stopped", "idle", "player-stop"),
    },
    "worker": {
        "starting": Look("Starting", "busy", "progress"),
        "ready": Look("Ready", "good", "circle-check"),
        "draining": Look("Draining", "warn", "droplet-half"),
        "lost": Look("Lost", "bad", "plug-connected-x"),
        "stuck": Look("Stuck", "bad", "alert-triangle"),
        "failed": Look("Failed", "bad", "circle-x"),
        "stopped": Look("Stopped", "idle", "player-stop"),
    },
    "part": {
        "up": Look("Up", "good", "circle-check"),
        "starting": Look("Starting", "busy", "progress"),
        "restarting": Look("Restarting", "warn", "refresh"),
        "down": Look("Down", "bad", "circle-x"),
        "stopped": Look("Stopped", "idle", "player-stop"),
        "unknown": Look("Unknown", "idle", "help-circle"),
    },
    "gpu": {
        "healthy": Look("Healthy", "good", "circle-check"),
        "suspect": Look("Suspect", "warn", "eye-exclamation"),
        "quarantined": Look("Quarantined", "bad", "barrier-block"),
        "draining": Look("Draining", "warn", "droplet-half"),
        "healing": Look("Healing", "busy", "bandage"),
        "verifying": Look("Verifying", "busy", "stethoscope"),
        "offline": Look("Offline", "bad", "plug-connected-x"),
    },
    "image": {
        "current": Look("Current", "good", "circle-check"),
        "deprecated": Look("Deprecated", "warn", "clock-off"),
    },
    "fit": {"fits": Look("Fits", "good", "circle-check")},
    "trial": {
        "works": Look("Works", "good", "circle-check"),
        "fails": Look("Fails", "bad", "circle-x"),
    },
    "webhook": {
        "enabled": Look("Enabled", "good", "circle-check"),
        "failing": Look("Failing", "warn", "alert-triangle"),
        "disabled": Look("Disabled", "idle", "circle-off"),
    },
    "delivery": {
        "pending": Look("On its way", "busy", "progress"),
        "failed": Look("To be tried again", "warn", "refresh"),
        "delivered": Look("Delivered", "good", "circle-check"),
        "given_up": Look("Given up", "bad", "circle-x"),
    },
    "token": {
        "active": Look("Active", "good", "circle-check"),
        "expired": Look("Expired", "idle", "clock-off"),
        "revoked": Look("Revoked", "idle", "circle-off"),
    },
}


def look(kind: str, state: str) -> Look:
    """How `state` of a `kind` looks; one that nobody has drawn yet is shown by its own name, quietly."""
    drawn = LOOKS.get(kind, {}).get(state)
    return drawn or Look(state.replace("_", " ").capitalize() or "Unknown", "idle", "help-circle")
