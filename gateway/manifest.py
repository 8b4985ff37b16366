"""The manifest of the app gateway."""

from functools import partial

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from clusters.events import ClusterMoved, ClusterRegistered, WorkersChanged
from clusters.panels import ClusterPanel, register_cluster_panel
from clusters.uses import register_cluster_uses
from common.alert_rules import AlertRule
from common.choices import ChoiceSet
from common.declared import AppManifest
from common.events import Subscription
from common.health import HealthProbe, Unhealthy
from common.pages.badges import Badge
from common.pages.subjects import Subject
from common.resealing import SealedColumn
from gateway import metrics, states, subscribers
from gateway.alert_checks import ALERT_CHECKS
from gateway.key_pages import PAGES as KEY_PAGES
from gateway.models import KEY_PURPOSE, SECRETS_PURPOSE, Gateway, Route
from gateway.pages import PAGES
from gateway.panel import panel_of
from gateway.reconcilers import GatewayReconciler, WatchedRouteReconciler
from gateway.selectors import health, routes_through


def _health() -> str:
    found = health()
    if not found.ok:
        raise Unhealthy(found.detail)
    return found.detail


CHOICES = (
    ChoiceSet(states.GatewayKind, schema="GatewayKind"),
    ChoiceSet(states.MetricsKind),
    ChoiceSet(states.AbilityState, badges="ability", schema="AbilityState"),
)
MANIFEST = AppManifest(
    alert_checks=ALERT_CHECKS,
    choices=CHOICES,
    subscriptions=(Subscription(WorkersChanged, subscribers.route_to_workers),),
    witnesses=(
        Subscription(ClusterRegistered, subscribers.give_gateway),
        Subscription(ClusterMoved, subscribers.move_gateway),
    ),
    sealed=(
        SealedColumn(Gateway, "sealed_secrets", SECRETS_PURPOSE),
        SealedColumn(Route, "sealed_release_key", KEY_PURPOSE),
    ),
    reconcilers=(GatewayReconciler(), WatchedRouteReconciler()),
    subjects=(
        Subject("gateway.gateway", _("Gateway"), "/fleet/"),
        Subject("gateway.route", _("Route")),
        Subject("gateway.abilityroute", _("Ability"), "/abilities/{pk}/", badges="ability"),
        Subject("gateway.clientkey", _("Client key"), "/client-keys/{pk}/", badges="token"),
        Subject("gateway.watchedroute", _("Watched traffic"), "/services/"),
    ),
    badges={
        "ability": {
            "pending": Badge(_("Pending"), "busy", "clock"),
            "serving": Badge(_("Serving"), "good", "circle-check"),
            "no_workers": Badge(_("No workers"), "warn", "alert-triangle"),
        },
    },
    nav=(PAGES.nav, KEY_PAGES.nav),
    search=(PAGES.search, KEY_PAGES.search),
    destinations=(*PAGES.destinations, *KEY_PAGES.destinations),
    nouns={
        "abilities": lambda count: ngettext("ability", "abilities", count),
        "client-keys": lambda count: ngettext("client key", "client keys", count),
    },
    hooks=(
        partial(register_cluster_uses, routes_through),
        partial(register_cluster_panel, ClusterPanel("gateway/_panel.html", panel_of)),
    ),
    metrics=(metrics.gateways, metrics.traffic, metrics.workers, metrics.speeds),
    probes=(HealthProbe("gateway", _health, vital=False, title=_("Gateway")),),
    alert_rules=(
        AlertRule(
            name="SlipwayRouteErrors",
            expr="sum by (service, version, route) (max by (service, version, side, epoch, route)"
            " (rate(slipway_service_route_errors_total[5m]))) > 0.05 * sum by (service, version, route)"
            " (max by (service, version, side, epoch, route)"
            " (rate(slipway_service_route_requests_total[5m])))",
            lasts="5m",
            severity="warning",
            summary="{{ $labels.service }}: more than 5 % of the requests to {{ $labels.route }} of"
            " {{ $labels.version }} fail.",
        ),
        AlertRule(
            name="SlipwayModelQueueSlow",
            expr="sum by (service, version, method) (max by (service, version, side, epoch, method)"
            " (rate(slipway_service_model_queue_seconds_total[5m]))) > 1 * sum by (service, version, method)"
            " (max by (service, version, side, epoch, method) (rate(slipway_service_model_calls_total[5m])))",
            lasts="5m",
            severity="warning",
            summary="{{ $labels.service }}: calls of {{ $labels.method }} wait more than 1 s for a batch.",
        ),
    ),
)
