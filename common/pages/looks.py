"""Word, tone and icon of every state: never colour alone.

One table for the whole console, so that the same thing looks the same on every screen. Tones:
`idle` nothing happens, `busy` at work, `ask` a person must act, `good`, `warn`, `bad`.
"""

from dataclasses import dataclass, replace
from typing import Literal

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _

Tone = Literal["idle", "busy", "ask", "good", "warn", "bad"]
TONES: tuple[Tone, ...] = ("idle", "busy", "ask", "good", "warn", "bad")


@dataclass(frozen=True, slots=True)
class Look:
    word: str
    tone: Tone
    icon: str


LOOKS: dict[str, dict[str, Look]] = {
    "work": {
        "stuck": Look(_("Stuck"), "bad", "alert-triangle"),
        "failing": Look(_("Failing"), "warn", "alert-triangle"),
    },
    "release": {
        "pending": Look(_("Pending"), "idle", "circle-dashed"),
        "running": Look(_("Running"), "busy", "progress"),
        "waiting_approval": Look(_("Waiting for approval"), "ask", "user-question"),
        "paused": Look(_("Paused"), "warn", "player-pause"),
        "promoted": Look(_("Promoted"), "good", "circle-check"),
        "superseded": Look(_("Superseded"), "idle", "history"),
        "undone": Look(_("Rolled back later"), "warn", "rotate-2"),
        "rolling_back": Look(_("Rolling back"), "warn", "arrow-back-up"),
        "rolled_back": Look(_("Rolled back"), "bad", "arrow-back-up"),
        "rejected": Look(_("Rejected"), "bad", "thumb-down"),
        "aborted": Look(_("Aborted"), "idle", "circle-off"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "stuck": Look(_("Stuck"), "bad", "alert-triangle"),
    },
    "version": {
        "importing": Look(_("Importing"), "busy", "download"),
        "ready": Look(_("Ready"), "good", "circle-check"),
        "archived": Look(_("Archived"), "idle", "archive"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "refused": Look(_("Refused"), "bad", "shield-x"),
        "deleted": Look(_("Deleted"), "idle", "trash"),
    },
    "sync": {
        "resolving": Look(_("Contacting hub"), "busy", "progress"),
        "fetching": Look(_("Fetching"), "busy", "download"),
        "paused": Look(_("Paused"), "warn", "player-pause"),
        "interrupted": Look(_("Interrupted"), "warn", "plug-connected-x"),
        "done": Look(_("Done"), "good", "circle-check"),
        "current": Look(_("Up to date"), "good", "equal"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "refused": Look(_("Refused"), "bad", "shield-x"),
        "cancelled": Look(_("Cancelled"), "idle", "circle-off"),
    },
    "upload": {
        "open": Look(_("Uploading"), "busy", "cloud-upload"),
        "importing": Look(_("Importing"), "busy", "progress"),
        "done": Look(_("Done"), "good", "circle-check"),
        "refused": Look(_("Refused"), "bad", "shield-x"),
        "cancelled": Look(_("Cancelled"), "idle", "circle-off"),
        "expired": Look(_("Expired"), "idle", "clock-off"),
    },
    "export": {
        "sending": Look(_("Sending"), "busy", "upload"),
        "paused": Look(_("Paused"), "warn", "player-pause"),
        "interrupted": Look(_("Interrupted"), "warn", "plug-connected-x"),
        "done": Look(_("Done"), "good", "circle-check"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "cancelled": Look(_("Cancelled"), "idle", "circle-off"),
    },
    "run": {
        "running": Look(_("Running"), "busy", "progress"),
        "done": Look(_("Done"), "good", "circle-check"),
        "stopped": Look(_("Stopped"), "idle", "circle-off"),
    },
    "finding": {
        "found": Look(_("Found"), "warn", "alert-triangle"),
        "aside": Look(_("Being repaired"), "busy", "bandage"),
        "lost": Look(_("Lost"), "bad", "circle-x"),
        "repaired": Look(_("Repaired"), "good", "circle-check"),
        "unneeded": Look(_("Not needed"), "idle", "circle-off"),
    },
    "signature": {
        "trusted": Look(_("Trusted"), "good", "shield-check"),
        "unknown": Look(_("Not trusted"), "warn", "shield-x"),
        "invalid": Look(_("Broken"), "bad", "circle-x"),
        "unsigned": Look(_("Unsigned"), "idle", "circle-dashed"),
    },
    "verdict_of_rule": {
        "stays": Look(_("Kept"), "good", "lock"),
        "goes": Look(_("Goes"), "warn", "trash"),
    },
    "change": {
        "same": Look(_("Same"), "idle", "equal"),
        "changed": Look(_("Changed"), "warn", "pencil"),
        "added": Look(_("Added"), "good", "plus"),
        "removed": Look(_("Removed"), "bad", "minus"),
    },
    "node": {
        "ready": Look(_("Ready"), "good", "circle-check"),
        "not_ready": Look(_("Not ready"), "bad", "plug-connected-x"),
        "unknown": Look(_("Unknown"), "bad", "help-circle"),
        "gone": Look(_("Gone"), "warn", "circle-off"),
    },
    "alert": {
        "lost": Look(_("Lost"), "bad", "plug-connected-x"),
        "stuck": Look(_("Stuck"), "bad", "alert-triangle"),
        "saturated": Look(_("Saturated"), "warn", "gauge"),
    },
    "step": {
        "pending": Look(_("Pending"), "idle", "circle-dashed"),
        "running": Look(_("Running"), "busy", "progress"),
        "waiting": Look(_("Waiting"), "ask", "user-question"),
        "done": Look(_("Done"), "good", "circle-check"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "aborted": Look(_("Aborted"), "warn", "circle-off"),
        "rejected": Look(_("Rejected"), "bad", "thumb-down"),
        "not_run": Look(_("Not run"), "idle", "circle-minus"),
        "paused": Look(_("Paused"), "warn", "player-pause"),
        "stuck": Look(_("Stuck"), "bad", "alert-triangle"),
    },
    "service": {
        "starting": Look(_("Starting"), "busy", "progress"),
        "serving": Look(_("Serving"), "good", "circle-check"),
        "releasing": Look(_("Releasing"), "busy", "rocket"),
        "degraded": Look(_("Degraded"), "warn", "alert-triangle"),
        "failing": Look(_("Failing"), "bad", "circle-x"),
        "down": Look(_("Down"), "bad", "circle-x"),
    },
    "verdict": {
        "none": Look(_("No analysis yet"), "idle", "circle-dashed"),
        "never": Look(_("No analysis"), "idle", "circle-minus"),
        "insufficient": Look(_("Inconclusive"), "warn", "scale"),
        "promote": Look(_("Passed"), "good", "rosette-discount-check"),
        "roll_back": Look(_("Failed"), "bad", "arrow-back-up"),
    },
    "deployment": {
        "starting": Look(_("Starting"), "busy", "progress"),
        "ready": Look(_("Ready"), "good", "circle-check"),
        "degraded": Look(_("Degraded"), "warn", "alert-triangle"),
        "failing": Look(_("Failing"), "bad", "circle-x"),
        "removing": Look(_("Stopping"), "warn", "droplet-half"),
        "removed": Look(_("Stopped"), "idle", "player-stop"),
    },
    "worker": {
        "starting": Look(_("Starting"), "busy", "progress"),
        "ready": Look(_("Ready"), "good", "circle-check"),
        "draining": Look(_("Draining"), "warn", "droplet-half"),
        "lost": Look(_("Lost"), "bad", "plug-connected-x"),
        "stuck": Look(_("Stuck"), "bad", "alert-triangle"),
        "saturated": Look(_("Saturated"), "warn", "gauge"),
        "failed": Look(_("Failed"), "bad", "circle-x"),
        "stopped": Look(_("Stopped"), "idle", "player-stop"),
    },
    "disk": {
        "low": Look(_("Disk low"), "warn", "database-exclamation"),
        "full": Look(_("Disk full"), "bad", "database-x"),
    },
    "part": {
        "up": Look(_("Up"), "good", "circle-check"),
        "starting": Look(_("Starting"), "busy", "progress"),
        "restarting": Look(_("Restarting"), "warn", "refresh"),
        "down": Look(_("Down"), "bad", "circle-x"),
        "stopped": Look(_("Stopped"), "idle", "player-stop"),
        "unknown": Look(_("Unknown"), "idle", "help-circle"),
    },
    "gpu": {
        "healthy": Look(_("Healthy"), "good", "circle-check"),
        "suspect": Look(_("Suspect"), "warn", "eye-exclamation"),
        "quarantined": Look(_("Quarantined"), "bad", "barrier-block"),
        "draining": Look(_("Draining"), "warn", "droplet-half"),
        "healing": Look(_("Healing"), "busy", "bandage"),
        "verifying": Look(_("Verifying"), "busy", "stethoscope"),
        "offline": Look(_("Offline"), "bad", "plug-connected-x"),
    },
    "image": {
        "current": Look(_("Current"), "good", "circle-check"),
        "deprecated": Look(_("Deprecated"), "warn", "clock-off"),
    },
    "fit": {"fits": Look(_("Fits"), "good", "circle-check")},
    "trial": {
        "works": Look(_("Works"), "good", "circle-check"),
        "fails": Look(_("Fails"), "bad", "circle-x"),
    },
    "webhook": {
        "enabled": Look(_("Enabled"), "good", "circle-check"),
        "failing": Look(_("Failing"), "warn", "alert-triangle"),
        "disabled": Look(_("Disabled"), "idle", "circle-off"),
    },
    "delivery": {
        "pending": Look(_("On its way"), "busy", "progress"),
        "failed": Look(_("To be tried again"), "warn", "refresh"),
        "delivered": Look(_("Delivered"), "good", "circle-check"),
        "given_up": Look(_("Given up"), "bad", "circle-x"),
    },
    "token": {
        "active": Look(_("Active"), "good", "circle-check"),
        "expired": Look(_("Expired"), "idle", "clock-off"),
        "revoked": Look(_("Revoked"), "idle", "circle-off"),
    },
}


def look(kind: str, state: str) -> Look:
    """How `state` of a `kind` looks; one that nobody has drawn yet is shown by its own name, quietly."""
    drawn = LOOKS.get(kind, {}).get(state)
    if drawn is not None:
        return replace(drawn, word=gettext(drawn.word))
    return Look(state.replace("_", " ").capitalize() or gettext("Unknown"), "idle", "help-circle")
