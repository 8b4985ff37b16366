"""What the composition root itself adds: Home, the parts of the stack, the API's reference."""

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.alert_rules import AlertRule
from common.declared import Manifest
from common.pages.badges import Badge, Badges
from common.pages.cards import Card
from common.pages.search import Destination, Search
from common.pages.shell import NavItem
from controlplane.changes import ChangesTopic
from controlplane.home.consumers import HomeTopic
from controlplane.home.inbox import InboxCard
from controlplane.home.parts import parts_card
from controlplane.search import find_destinations

BADGES: Mapping[str, Badges] = {
    "part": {
        "up": Badge(_("Up"), "good", "circle-check"),
        "starting": Badge(_("Starting"), "busy", "progress"),
        "restarting": Badge(_("Restarting"), "warn", "refresh"),
        "down": Badge(_("Down"), "bad", "circle-x"),
        "stopped": Badge(_("Stopped"), "idle", "player-stop"),
        "unknown": Badge(_("Unknown"), "idle", "help-circle"),
    },
}
MANIFEST = Manifest(
    badges=BADGES,
    cards=(
        Card(name="inbox", template="home/_inbox.html", read=InboxCard, column="main", rank=10),
        Card(name="parts", template="home/_parts.html", read=parts_card, column="side", rank=20),
    ),
    nav=(NavItem(name=_("Home"), path="/", icon="home", rank=10, key="h"),),
    search=(Search(_("Pages and commands"), find_destinations),),
    destinations=(
        Destination(title=_("Home"), url="/", icon="home", words="inbox attention approvals status"),
        Destination(
            title=_("API reference"),
            url="/api/docs/",
            icon="braces",
            words="rest openapi schema documentation",
        ),
    ),
    topics=(HomeTopic(), ChangesTopic()),
    alert_rules=(
        AlertRule(
            name="SlipwayPartDown",
            expr="slipway_part_up == 0",
            lasts="1m",
            severity="critical",
            summary="{{ $labels.part }} of {{ $labels.instance }} is down.",
        ),
    ),
)
