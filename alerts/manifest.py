"""What alerts add to the whole."""

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from alerts import inbox
from alerts.events import AlertsFired, AlertsResolved
from alerts.models import RaisedAlert
from alerts.pruning import resolved_before
from alerts.reconcilers import AlertReconciler
from alerts.states import AlertSeverity, AlertState
from alerts.webhook_events import group_payload
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.pages.badges import Badge
from common.pages.inbox import InboxSource
from common.pages.search import SearchDestination
from common.pages.shell import NavItem
from common.pages.subjects import Subject
from common.reconcile.pruning import PruningRule
from common.webhooks.catalogue import WebhookEventType

MANIFEST = AppManifest(
    reconcilers=(AlertReconciler(),),
    subjects=(
        Subject("alerts.raisedalert", _("Alert"), "/alerts/{pk}/", badges="alert_state"),
        Subject("alerts.alertsilence", _("Silence"), "/alerts/"),
        Subject("alerts.alertevaluation", _("Evaluation of alerts"), "/alerts/checks/"),
    ),
    choices=(
        ChoiceSet(AlertState, badges="alert_state", schema="AlertState"),
        ChoiceSet(AlertSeverity, badges="alert_severity", schema="AlertSeverity"),
    ),
    badges={
        "alert_state": {
            "pending": Badge(_("Pending"), "idle", "clock"),
            "firing": Badge(_("Firing"), "bad", "bell-ringing"),
            "acknowledged": Badge(_("Acknowledged"), "warn", "eye-check"),
            "silenced": Badge(_("Silenced"), "idle", "bell-off"),
            "resolved": Badge(_("Resolved"), "good", "circle-check"),
        },
        "alert_severity": {
            "critical": Badge(_("Critical"), "bad", "alert-octagon"),
            "warning": Badge(_("Warning"), "warn", "alert-triangle"),
        },
    },
    inbox=(InboxSource(find=inbox.critical_alerts, topic="changes:alerts"),),
    nav=(NavItem(name=_("Alerts"), path="/alerts/", icon="bell", rank=12, key="l", follows_changes=True),),
    notices=("/alerts/here/",),
    destinations=(
        SearchDestination(title=_("Alerts"), url="/alerts/", icon="bell", words="firing silence problems"),
        SearchDestination(
            title=_("Alert checks"), url="/alerts/checks/", icon="bell-cog", words="rules thresholds"
        ),
    ),
    nouns={"alerts": lambda count: ngettext("alert", "alerts", count)},
    webhook_events=(
        WebhookEventType(
            "alert.firing",
            _("Alerts of one check about one service or cluster began to fire, or became more."),
            group_payload,
            AlertsFired,
        ),
        WebhookEventType(
            "alert.resolved",
            _("All alerts of one check about one service or cluster are resolved."),
            group_payload,
            AlertsResolved,
        ),
    ),
    webhook_heading=_("Alerts"),
    pruning=(PruningRule(RaisedAlert, _("Resolved alerts"), "SLIPWAY_KEEP_ALERTS_DAYS", resolved_before),),
)
