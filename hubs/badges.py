"""Of syncs and exports."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "transfer": {
        "resolving": Badge(_("Contacting hub"), "busy", "progress"),
        "fetching": Badge(_("Fetching"), "busy", "download"),
        "sending": Badge(_("Sending"), "busy", "upload"),
        "paused": Badge(_("Paused"), "warn", "player-pause"),
        "interrupted": Badge(_("Interrupted"), "warn", "plug-connected-x"),
        "done": Badge(_("Done"), "good", "circle-check"),
        "current": Badge(_("Up to date"), "good", "equal"),
        "failed": Badge(_("Failed"), "bad", "circle-x"),
        "refused": Badge(_("Refused"), "bad", "shield-x"),
        "cancelled": Badge(_("Cancelled"), "idle", "circle-off"),
    },
}
