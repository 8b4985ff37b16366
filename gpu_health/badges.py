"""Of findings, their severity and what would be done."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
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
