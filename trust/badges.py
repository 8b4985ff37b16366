"""Of what signatures amount to."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.pages.badges import Badge, Badges

BADGES: Mapping[str, Badges] = {
    "signature": {
        "trusted": Badge(_("Trusted"), "good", "shield-check"),
        "unknown": Badge(_("Not trusted"), "warn", "shield-x"),
        "invalid": Badge(_("Broken"), "bad", "circle-x"),
        "unsigned": Badge(_("Unsigned"), "idle", "circle-dashed"),
    },
}
